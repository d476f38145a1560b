package apiclient_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

func TestErrorFromAnswer(t *testing.T) {
	const path = "/organizations/" + orgID + "/discovery-domains/" + domainID
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   apiclient.Error
		text   string // behind "get_discovery_domain: GET <path>: "
	}{
		{
			"no domain", 404, `{"statusCode":404,"error":"Not Found","message":"No organization domain found by that id"}`,
			apiclient.Error{Title: "Not Found", Message: "No organization domain found by that id"},
			"404 Not Found: No organization domain found by that id",
		},
		{
			"scope", 403,
			`{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: read:organization_clients","errorCode":"insufficient_scope"}`,
			apiclient.Error{Title: "Forbidden", Message: "Insufficient scope, expected any of: read:organization_clients",
				Code: "insufficient_scope"},
			"403 Forbidden: Insufficient scope, expected any of: read:organization_clients (insufficient_scope)",
		},
		{
			"body invalid", 400,
			`{"statusCode":400,"error":"Bad Request","message":"Payload validation error: 'x'","errorCode":"invalid_body"}`,
			apiclient.Error{Title: "Bad Request", Message: "Payload validation error: 'x'", Code: "invalid_body"},
			"400 Bad Request: Payload validation error: 'x' (invalid_body)",
		},
		{
			"members of other types", 422, `{"statusCode":"422","error":5,"message":["a","b"],"errorCode":null}`,
			apiclient.Error{Title: "5", Message: `["a","b"]`},
			`422 5: ["a","b"]`,
		},
		{
			"html", 502, "<html>\n<h1>Bad Gateway</h1>",
			apiclient.Error{Message: `a body of type "application/json"`},
			`502 Bad Gateway: a body of type "application/json"`,
		},
		{"empty", 500, "", apiclient.Error{Message: "Internal Server Error"}, "500 Internal Server Error"},
		{"blank", 500, " \n", apiclient.Error{Message: "Internal Server Error"}, "500 Internal Server Error"},
		{"a status without a name", 599, "", apiclient.Error{}, "599"},
		{"an array", 500, `[1]`, apiclient.Error{Message: `a body of type "application/json"`},
			`500 Internal Server Error: a body of type "application/json"`},
		{"null", 500, `null`, apiclient.Error{Message: `a body of type "application/json"`},
			`500 Internal Server Error: a body of type "application/json"`},
		{"an empty object", 500, `{}`, apiclient.Error{Message: `a body of type "application/json"`},
			`500 Internal Server Error: a body of type "application/json"`},
		{
			"control characters", 400, `{"statusCode":400,"error":"Bad Request","message":"a\u0000b\u001b[31mc\nd\u202ee"}`,
			apiclient.Error{Title: "Bad Request", Message: `a\x00b\x1b[31mc\nd\u202ee`},
			`400 Bad Request: a\x00b\x1b[31mc\nd\u202ee`,
		},
		{
			"a long message", 400, `{"statusCode":400,"error":"Bad Request","message":"` + strings.Repeat("ä", 301) + `"}`,
			apiclient.Error{Title: "Bad Request", Message: strings.Repeat("ä", 300) + "…"},
			"400 Bad Request: " + strings.Repeat("ä", 300) + "…",
		},
		{
			"a long page", 500, strings.Repeat("ä", 101),
			apiclient.Error{Message: `a body of type "application/json"`},
			`500 Internal Server Error: a body of type "application/json"`,
		},
		{
			"it repeats the token", 401,
			`{"statusCode":401,"error":"Unauthorized","message":"Bad token ` + testToken + `","errorCode":"` +
				testToken[:30] + `"}`,
			apiclient.Error{Title: "Unauthorized", Message: "Bad token [secret]", Code: "[secret]"},
			"401 Unauthorized: Bad token [secret] ([secret])",
		},
		{
			"a page repeats the token", 500, "<pre>Authorization: Bearer " + testToken + "</pre>",
			apiclient.Error{Message: `a body of type "application/json"`},
			`500 Internal Server Error: a body of type "application/json"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(tc.status, tc.body))
			err := get(t.Context(), a.client(t))
			got, ok := errors.AsType[*apiclient.Error](err)
			if !ok {
				t.Fatalf("want an Error, got %T: %v", err, err)
			}
			want := tc.want
			want.Operation, want.Method, want.Path, want.Status = schema.OpGetDiscoveryDomain, "GET", path, tc.status
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := "get_discovery_domain: GET " + path + ": " + tc.text; err.Error() != text {
				t.Errorf("got  %v\nwant %s", err, text)
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers [][2]string
		want    string
	}{
		{"none", nil, ""},
		{"first", [][2]string{{"X-Correlation-Id", "c"}, {"X-Auth0-RequestId", "b"}, {"X-Request-Id", "a"}}, "a"},
		{"second", [][2]string{{"X-Correlation-Id", "c"}, {"X-Auth0-RequestId", "b"}}, "b"},
		{"of the Management API", [][2]string{{"Cf-Ray", "d-KUL"}, {"Ot-Baggage-Auth0-Request-Id", "d"}}, "d"},
		{"of the network before it", [][2]string{{"X-Correlation-Id", "c"}, {"Cf-Ray", "d-KUL"}}, "d-KUL"},
		{"last", [][2]string{{"X-Correlation-Id", "c"}}, "c"},
		{"long", [][2]string{{"X-Request-Id", strings.Repeat("a", 200)}}, strings.Repeat("a", 128) + "…"},
		{"the token", [][2]string{{"X-Request-Id", testToken}}, "[secret]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for _, h := range tc.headers {
					w.Header().Set(h[0], h[1])
				}
				answer(500, "{}")(w, r)
			})
			err := get(t.Context(), a.client(t))
			e, ok := errors.AsType[*apiclient.Error](err)
			if !ok || e.RequestID != tc.want {
				t.Fatalf("got %v, want the request id %q", err, tc.want)
			}
			if tc.want != "" && !strings.HasSuffix(err.Error(), " (request id "+tc.want+")") {
				t.Errorf("not in the text: %v", err)
			}
		})
	}
}

// TestRetryAfter checks how long an answer asks to wait. The gate gets the same as the caller.
func TestRetryAfter(t *testing.T) {
	const date = "Fri, 20 Nov 2026 10:00:00 GMT" // Unix 1795168800
	for _, tc := range []struct {
		name    string
		status  int
		headers map[string]string
		want    time.Duration
	}{
		{"nothing said", 429, nil, 0},
		{"seconds", 429, map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"seconds on a 503", 503, map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"a date against the server's", 429, map[string]string{"Retry-After": "Fri, 20 Nov 2026 10:00:09 GMT", "Date": date},
			9 * time.Second},
		{"a date in the past", 429, map[string]string{"Retry-After": "Fri, 20 Nov 2026 09:00:00 GMT", "Date": date}, 0},
		{"a far date without the server's", 429, map[string]string{"Retry-After": "Fri, 20 Nov 2999 10:00:09 GMT",
			"Date": "-"}, 24 * time.Hour},
		{"negative", 429, map[string]string{"Retry-After": "-5"}, 0},
		{"nonsense", 429, map[string]string{"Retry-After": "soon"}, 0},
		{"huge", 429, map[string]string{"Retry-After": "9223372036854775807"}, 24 * time.Hour},
		{"beyond numbers", 429, map[string]string{"Retry-After": strings.Repeat("9", 40)}, 24 * time.Hour},
		{"a part of a second before reset", 429, map[string]string{"Retry-After": "0", "X-RateLimit-Reset": "1795168811",
			"Date": date}, 0},
		{"a date in the past before reset", 429, map[string]string{"Retry-After": "Fri, 20 Nov 2026 09:00:00 GMT",
			"X-RateLimit-Reset": "1795168811", "Date": date}, 0},
		{"nonsense, and reset", 429, map[string]string{"Retry-After": "soon", "X-RateLimit-Reset": "1795168811",
			"Date": date}, 11 * time.Second},
		{"negative, and reset", 429, map[string]string{"Retry-After": "-5", "X-RateLimit-Reset": "1795168811",
			"Date": date}, 11 * time.Second},
		{"reset against the server's date", 429, map[string]string{"X-RateLimit-Reset": "1795168811", "Date": date},
			11 * time.Second},
		{"reset in the past", 429, map[string]string{"X-RateLimit-Reset": "1795168700", "Date": date}, 0},
		{"reset without a date", 429, map[string]string{"X-RateLimit-Reset": "1795168811", "Date": "-"}, 0},
		{"reset far away", 429, map[string]string{"X-RateLimit-Reset": "9223372036854775807", "Date": date}, 24 * time.Hour},
		{"reset in milliseconds", 429, map[string]string{"X-RateLimit-Reset": "1795168811000", "Date": date},
			11 * time.Second},
		{"reset in nanoseconds", 429, map[string]string{"X-RateLimit-Reset": "1795168811000000000", "Date": date},
			11 * time.Second},
		{"reset where nothing was limited", 503, map[string]string{"X-RateLimit-Reset": "1795168811", "Date": date}, 0},
		{"Retry-After before reset", 429, map[string]string{"Retry-After": "3", "X-RateLimit-Reset": "1795168811",
			"Date": date}, 3 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for name, value := range tc.headers {
					w.Header().Set(name, value)
				}
				answer(tc.status, "{}")(w, r)
			})
			g := &gate{}
			err := get(t.Context(), a.client(t, func(cfg *apiclient.Config) { cfg.Gate = g }))
			e, ok := errors.AsType[*apiclient.Error](err)
			if !ok || e.RetryAfter != tc.want || g.after != tc.want {
				t.Errorf("got %v with %v, and the gate %v; want %v", err, e.RetryAfter, g.after, tc.want)
			}
		})
	}
}

// TestRetryAfterWithoutDate checks that a date in Retry-After is compared with the local clock
// if the response has no valid Date.
func TestRetryAfterWithoutDate(t *testing.T) {
	for _, tc := range []struct {
		name string
		date []string      // the answer's Date
		in   time.Duration // from the local clock to the date in Retry-After
		want time.Duration
	}{
		{"no Date", nil, 90 * time.Second, 90 * time.Second},
		{"a Date that is none", []string{"today"}, 90 * time.Second, 90 * time.Second},
		{"past", nil, -time.Hour, 0},
		{"now", nil, 0, 0},
		{"far away", nil, 1000 * time.Hour, 24 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := time.Now().Add(tc.in).UTC().Format(http.TimeFormat)
				header := http.Header{"Retry-After": {at}, "Date": tc.date}
				if got := apiclient.RetryAfter(header); got != tc.want {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func FuzzErrorBody(f *testing.F) {
	for _, seed := range []string{
		`{"statusCode":404,"error":"Not Found","message":"No organization found by that id or name"}`,
		`{"message":["a"],"errorCode":{"b":1}}`, `{"error":"x","error_description":"` + testToken + `"}`,
		"<html>" + testToken, "", "null", "{", "\xff\x00", `{"message":"\ud800"}`,
	} {
		f.Add([]byte(seed), testToken)
	}
	f.Fuzz(func(t *testing.T, body []byte, secret string) {
		title, message, code := apiclient.ParseErrorBody(body, apiclient.NewSecret(secret))
		for name, s := range map[string]string{"title": title, "message": message, "code": code} {
			if !utf8.ValidString(s) {
				t.Errorf("%s is no UTF-8: %q", name, s)
			}
			if n := utf8.RuneCountInString(s); n > 300*10+3 { // \U0010ffff is the longest escape
				t.Errorf("%s has %d characters", name, n)
			}
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
				t.Errorf("%s has control characters: %q", name, s)
			}
			// The text around a shorter secret may contain it again.
			if len(secret) >= 16 && !strings.Contains("[secret]", secret) && strings.Contains(s, secret) {
				t.Errorf("%s has the secret: %q", name, s)
			}
		}
	})
}

// TestAnswersOfOthers has proxies, firewalls and portals answer instead of the API: the
// error is never one that the API gave, says whose page it is, and no such answer is
// reported to the gate, where it would end a block.
func TestAnswersOfOthers(t *testing.T) {
	const full = `{"statusCode":404,"error":"Not Found","message":"No organization domain found by that id"}`
	html := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Server", "cloudflare")
			w.Header().Set("Via", "1.1 squid")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // behind "… the API) but "
	}{
		{
			"page of a gateway",
			html(404, "<!doctype html><html><head><title>No such\n site</title><style>p {}</style></head><body><p>Sorry.</p>"),
			`a body of type "text/html", server "cloudflare", via "1.1 squid"`,
		},
		{
			"page with the token", html(403, "<p>Authorization: Bearer "+testToken),
			`a body of type "text/html"`,
		},
		{"login page instead of a record", html(200, "<html>Log in"), `a body of type`},
		{"page of 401", html(401, "<html>Log in"), `a body of type`},
		{"nothing", html(404, ""), "an empty body"},
		{"blanks", html(404, " \r\n"), "an empty body"},
		{"text", answer(404, "404 page not found"), `a body of type`},
		{"JSON of a gateway", answer(403, `{"message":"Forbidden"}`), `a body of type`},
		{"the shape of OAuth", answer(400, `{"error":"invalid_request","error_description":"no"}`), "a body of type"},
		{"an array", answer(404, "["+full+"]"), "a body of type"},
		{"null", answer(404, "null"), `a body of type`},
		{"no status code", answer(404, `{"error":"Not Found","message":"x"}`), "a body of type"},
		{"no message", answer(404, `{"statusCode":404,"error":"Not Found"}`), "a body of type"},
		{"no error", answer(404, `{"statusCode":404,"message":"x"}`), "a body of type"},
		{"a status that the body does not name", answer(403, full), "a body of type"},
		{"a redirect with the API's JSON", answer(302, `{"statusCode":302,"error":"Found","message":"x"}`), "a body of type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, g := serve(t, tc.handler), &gate{}
			c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate = g })
			const advice = "it is not the API's (check the base URL, and the proxy or firewall before the API) but "
			wantAnswer(t, get(t.Context(), c), advice+tc.want)
			wantAnswer(t, create(t.Context(), c), advice+tc.want)
			want := []string{"wait get_discovery_domain", "answered get_discovery_domain ", "wait create_template",
				"answered create_template "}
			if diff := cmp.Diff(want, g.calls); diff != "" {
				t.Errorf("the gate (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusesOfIntermediaries checks that the 429 and the 5xx of an intermediary have the same
// meaning as the API's own: a firewall's 429 means to slow down too.
func TestStatusesOfIntermediaries(t *testing.T) {
	for _, status := range []int{408, 429, 500, 503} {
		a, g := serve(t, answer(status, "<html>")), &gate{}
		err := get(t.Context(), a.client(t, func(cfg *apiclient.Config) { cfg.Gate = g }))
		if e, ok := errors.AsType[*apiclient.Error](err); !ok || e.Status != status {
			t.Errorf("%d: got %v", status, err)
		}
		if want := "answered get_discovery_domain " + http.StatusText(status); g.calls[1] != want {
			t.Errorf("the gate saw %q, want %q", g.calls[1], want)
		}
	}
}

// TestStatusCodeAsText checks that the types of an error's members are not looked at, which
// are not specified.
func TestStatusCodeAsText(t *testing.T) {
	a := serve(t, answer(404, `{"statusCode":"404","error":5,"message":["x"]}`))
	if e, ok := errors.AsType[*apiclient.Error](get(t.Context(), a.client(t))); !ok || e.Status != 404 {
		t.Errorf("got %v", e)
	}
}
