package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
)

// patch verifies the domain that faultTenant made.
func patch(d sandbox.Domain) ask {
	return ask{method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON, body: `{"status":"verified"}`}
}

func faultTenant(t *testing.T) (*sandbox.Sandbox, sandbox.Domain) {
	t.Helper()
	s := start(t, sandbox.Options{})
	return s, s.AddDomain("org_a", sandbox.Domain{})
}

func verified(s *sandbox.Sandbox, d sandbox.Domain) bool {
	got, _ := s.Domain("org_a", d.ID)
	return got.Status == "verified"
}

func TestFaultAnswers(t *testing.T) {
	tests := []struct {
		name    string
		fault   sandbox.Fault
		status  int
		body    string // contained
		header  map[string]string
		handled bool
	}{
		{"status", sandbox.Fault{Status: 503}, 503, `"statusCode":503`,
			map[string]string{"Content-Type": "application/json; charset=utf-8"}, false},
		{"status after the work", sandbox.Fault{Status: 500, Handled: true}, 500,
			`"message":"Internal Server Error"`, nil, true},
		{"429", sandbox.Fault{Status: 429, Header: http.Header{"retry-after": {"7"}}}, 429, `"errorCode":"too_many_requests"`,
			map[string]string{"Retry-After": "7"}, false},
		{"header alone", sandbox.Fault{Header: http.Header{"X-Test": {"1"}}}, 200, `"status":"verified"`,
			map[string]string{"X-Test": "1"}, true},
		{"status and body", sandbox.Fault{Status: 400, Body: "oops", Header: http.Header{"Content-Type": {"text/plain"}}},
			400, "oops", map[string]string{"Content-Type": "text/plain"}, false},
		{"body alone", sandbox.Fault{Body: `{"id":5}`}, 200, `{"id":5}`, nil, false},
		{"page", sandbox.Fault{HTML: true, Body: "nginx"}, 502, "<body>nginx</body>",
			map[string]string{"Content-Type": "text/html; charset=utf-8"}, false},
		{"page with 200", sandbox.Fault{HTML: true, Status: 200}, 200, "<html>", nil, false},
		{"redirect", sandbox.Fault{Redirect: "https://elsewhere.example/"}, 302, "",
			map[string]string{"Location": "https://elsewhere.example/"}, false},
		{"redirect 307", sandbox.Fault{Redirect: "/x", Status: 307}, 307, "", map[string]string{"Location": "/x"}, false},
		{"204 with nothing", sandbox.Fault{Status: 204, Body: "never sent"}, 204, "", nil, false},
		{"latency", sandbox.Fault{Latency: time.Nanosecond, AnswerLatency: time.Nanosecond}, 200,
			`"status":"verified"`, nil, true},
		{"drip", sandbox.Fault{Drip: time.Nanosecond}, 200, `"status":"verified"`, nil, true},
		{"nothing", sandbox.Fault{}, 200, `"status":"verified"`, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, d := faultTenant(t)
			s.AddFault(tt.fault)
			got := do(t, s, patch(d))
			if got.status != tt.status || !strings.Contains(got.raw, tt.body) || tt.body == "" && got.raw != "" {
				t.Errorf("got %d %q", got.status, got.raw)
			}
			for name, want := range tt.header {
				if got.header.Get(name) != want {
					t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
				}
			}
			if verified(s, d) != tt.handled {
				t.Errorf("carried out: %v", !tt.handled)
			}
			r := s.Requests()[0]
			if r.Status != tt.status || r.Handled != tt.handled || r.Lost || !r.Finished {
				t.Errorf("logged %+v", r)
			}
		})
	}
}

func TestLostAnswers(t *testing.T) {
	tests := []struct {
		name    string
		fault   sandbox.Fault
		reset   bool
		status  int
		handled bool
	}{
		{"before", sandbox.Fault{DropBefore: true}, true, 0, false},
		{"after", sandbox.Fault{DropAfter: true}, true, 200, true},
		{"half", sandbox.Fault{Truncate: true}, false, 200, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, d := faultTenant(t)
			s.AddFault(tt.fault)
			got, err := try(t, s, patch(d))
			switch {
			case tt.reset && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF):
				t.Errorf("got %+v, %v", got, err)
			case !tt.reset && (!errors.Is(err, io.ErrUnexpectedEOF) || got.raw == "" || got.json != nil):
				t.Errorf("got %+v, %v", got, err)
			}
			if verified(s, d) != tt.handled {
				t.Errorf("carried out: %v", !tt.handled)
			}
			r := s.Requests()[0]
			if r.Status != tt.status || r.Handled != tt.handled || !r.Lost || !r.Finished {
				t.Errorf("logged %+v", r)
			}
		})
	}
}

func TestWrongRecords(t *testing.T) {
	s, d := faultTenant(t)
	s.AddFault(sandbox.Fault{Wrong: func(d *sandbox.Domain) { d.Host, d.Use = "elsewhere.example", new(true) }})
	for _, a := range []ask{patch(d), {method: "GET", path: domainPath("org_a", d.ID)}} {
		if got := do(t, s, a); got.json["verification_host"] != "elsewhere.example" {
			t.Errorf("%s: %s", a.method, got.raw)
		}
	}
	list, _ := walk(t, s, "/organizations/org_a/discovery-domains", "domains", 0)
	if host := list[0].(map[string]any)["verification_host"]; host != "elsewhere.example" {
		t.Error("list:", host)
	}
	if got := do(t, s, ask{method: "GET", path: "/organizations"}); got.status != 200 {
		t.Error("an answer without records:", got.status)
	}
	d.Status = "verified"
	kept, _ := s.Domain("org_a", d.ID)
	if diff := cmp.Diff(d, kept); diff != "" {
		t.Error(diff)
	}
}

func TestWhichRequestsAFaultFits(t *testing.T) {
	statuses := func(s *sandbox.Sandbox, n int, a ask) (got []int) {
		t.Helper()
		for range n {
			got = append(got, do(t, s, a).status)
		}
		return got
	}
	list := ask{method: "GET", path: "/organizations"}
	t.Run("count and skip", func(t *testing.T) {
		s, _ := faultTenant(t)
		s.AddFault(sandbox.Fault{Operation: sandbox.OpListOrganizations, Status: 500, Skip: 1, Count: 2})
		if diff := cmp.Diff([]int{200, 500, 500, 200}, statuses(s, 4, list)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("removed", func(t *testing.T) {
		s, _ := faultTenant(t)
		remove := s.AddFault(sandbox.Fault{Status: 500})
		s.AddFault(sandbox.Fault{Status: 501})
		got := statuses(s, 2, list)
		remove()
		remove()
		if diff := cmp.Diff([]int{500, 500, 501}, append(got, statuses(s, 1, list)...)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("operation", func(t *testing.T) {
		s, d := faultTenant(t)
		s.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: 500})
		if diff := cmp.Diff([]int{200}, statuses(s, 1, list)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]int{500}, statuses(s, 1, patch(d))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("match", func(t *testing.T) {
		s := start(t, sandbox.Options{})
		s.AddClients("org_a", "a", "b")
		var remove func()
		remove = s.AddFault(sandbox.Fault{Status: 400, Match: func(r sandbox.Request) bool {
			if len(r.Clients) == 1 && r.Clients[0] == "b" && r.Organization == "org_a" {
				defer remove() // the lock is not held
				return true
			}
			return false
		}})
		removal := func(c string) ask {
			return ask{method: "DELETE", path: "/organizations/org_a/clients", contentType: asJSON,
				body: `{"clients":["` + c + `"]}`}
		}
		if diff := cmp.Diff([]int{204}, statuses(s, 1, removal("a"))); diff != "" {
			t.Error(diff)
		}
		statuses(s, 1, removal("b"))
		if diff := cmp.Diff([]int{204}, statuses(s, 1, removal("b"))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("token", func(t *testing.T) {
		s := start(t, sandbox.Options{})
		a := ask{method: "POST", path: s.AuthURL() + "/oauth/token/", token: "none", contentType: asForm,
			body: credentials(s).Encode()}
		s.AddFault(sandbox.Fault{Operation: sandbox.OpToken, Status: 404,
			Match: func(r sandbox.Request) bool { return strings.HasSuffix(r.Path, "/") }})
		got := statuses(s, 1, a)
		a.path = s.AuthURL() + "/oauth/token"
		if diff := cmp.Diff([]int{404, 200}, append(got, statuses(s, 1, a)...)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("once among many at once", func(t *testing.T) {
		s := start(t, sandbox.Options{})
		s.AddFault(sandbox.Fault{Status: 500, Count: 3})
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() { do(t, s, list) })
		}
		wg.Wait()
		failed := 0
		for _, r := range s.Requests() {
			if r.Status == 500 {
				failed++
			}
		}
		if failed != 3 {
			t.Errorf("applied %d times, want 3", failed)
		}
	})
}

// TestLatencyOutlivesTheCaller checks that a request is executed although the caller closed
// the connection before.
func TestLatencyOutlivesTheCaller(t *testing.T) {
	s, d := faultTenant(t)
	arrived, proceed := make(chan struct{}), make(chan struct{})
	s.AddFault(sandbox.Fault{Match: func(sandbox.Request) bool {
		close(arrived)
		<-proceed
		return true
	}})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.BaseURL()+domainPath("org_a", d.ID),
		strings.NewReader(`{"status":"verified"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", asJSON)
	r.Header.Set("Authorization", "Bearer "+s.Token())
	var wg sync.WaitGroup
	wg.Go(func() {
		<-arrived
		cancel()
	})
	if res, err := client.Do(r); err == nil {
		t.Error("answered", res.Status, res.Body.Close())
	}
	close(proceed)
	wg.Wait()
	if err := s.Close(); err != nil { // Close waits for the handler
		t.Fatal(err)
	}
	if got := s.Requests()[0]; !got.Handled || got.Status != 200 || !verified(s, d) {
		t.Errorf("%+v; verified %v", got, verified(s, d))
	}
}

func TestAnswerThatIsNoHTTP(t *testing.T) {
	s, d := faultTenant(t)
	s.AddFault(sandbox.Fault{NotHTTP: true})
	if got, err := try(t, s, patch(d)); err == nil || !strings.Contains(err.Error(), "malformed HTTP") {
		t.Errorf("got %+v, %v", got, err)
	}
	if r := s.Requests()[0]; r.Handled || !r.Lost || !r.Finished || verified(s, d) {
		t.Errorf("logged %+v; verified %v", r, verified(s, d))
	}
}

// TestAnswerWithoutEnd checks that the body continues beyond any limit, until the caller
// closes the connection.
func TestAnswerWithoutEnd(t *testing.T) {
	s, d := faultTenant(t)
	s.AddFault(sandbox.Fault{Endless: true, Count: 1})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.BaseURL()+domainPath("org_a", d.ID),
		strings.NewReader(`{"status":"verified"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", asJSON)
	r.Header.Set("Authorization", "Bearer "+s.Token())
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	const much = 8 << 20
	if n, err := io.CopyN(io.Discard, res.Body, much); n != much || err != nil {
		t.Errorf("%d bytes, %v; want %d and more", n, err, much)
	}
	_ = res.Body.Close()
	if !verified(s, d) || !s.Requests()[0].Lost {
		t.Errorf("verified %v, logged %+v", verified(s, d), s.Requests()[0])
	}
}
