package surface

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// Request is a request to a handler.
type Request struct {
	Method, Path string
	Header       map[string]string
	Body         string
	// Note stands next to the request in the file, such as the user who sends it.
	Note string
	// Brief leaves out the body of the answer, which is a file of the module or long: it says which.
	Brief string
	// Whole shows all of a page, with what is around its main part.
	Whole bool
}

// shownHeaders are the headers that an answer's reader needs. Others are the same in all answers,
// and have tests of their own.
var shownHeaders = []string{
	"Location", "Content-Type", "Content-Disposition", "Retry-After", "Www-Authenticate", "Allow", "Link",
}

// Exchange sends a request to a handler, and returns request and answer as text. An answer that
// leads to a page is followed to what is new there: its notice.
func Exchange(t *testing.T, h http.Handler, host string, q Request) string {
	t.Helper()
	answer, body := send(t, h, host, q)
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s", q.Method, q.Path)
	if q.Note != "" {
		fmt.Fprintf(&out, " (%s)", q.Note)
	}
	fmt.Fprintf(&out, "\n")
	if q.Body != "" {
		fmt.Fprintf(&out, "%s\n", strings.TrimSpace(q.Body))
	}
	fmt.Fprintf(&out, "\n%d %s\n", answer.StatusCode, http.StatusText(answer.StatusCode))
	for _, name := range shownHeaders {
		for _, value := range answer.Header.Values(name) {
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(&out, "\n%s", shownBody(answer.Header.Get("Content-Type"), body, q))
	}
	if answer.StatusCode == http.StatusSeeOther {
		q.Method = http.MethodGet
		q.Path = answer.Header.Get("Location")
		q.Body = ""
		_, body = send(t, h, host, q)
		fmt.Fprintf(&out, "\n%s", Notice(string(body)))
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// send sends a request to a handler.
func send(t *testing.T, h http.Handler, host string, q Request) (answer *http.Response, body []byte) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), q.Method, q.Path, strings.NewReader(q.Body))
	r.Host = host
	for name, value := range q.Header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer = w.Result()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	must(t, answer.Body.Close())
	return answer, body
}

// shownBody returns the body of an answer as text.
func shownBody(mediaType string, body []byte, q Request) string {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	var indented bytes.Buffer
	switch {
	case q.Brief != "":
		return "[" + q.Brief + "]"
	case mediaType == "text/html":
		return Text(string(body), q.Whole)
	case strings.HasSuffix(mediaType, "json") && json.Indent(&indented, body, "", "  ") == nil:
		return indented.String()
	}
	return Indented(string(body))
}

// Routes are the examples of an HTTP API, or of pages: the requests of each route, by its pattern.
type Routes []struct {
	Pattern  string
	Requests []Request
}

// Compare compares the answers to the requests with the files of a room. handler makes the
// handler of a moment, host is the name under which it is requested. patterns are those of all
// routes: each must have an example.
func (all Routes) Compare(t *testing.T, room *Room, world *World, host string, patterns []string,
	handler func(t *testing.T, m *Moment) http.Handler) {
	t.Helper()
	for _, pattern := range patterns {
		if !slices.ContainsFunc(all, func(r struct {
			Pattern  string
			Requests []Request
		}) bool {
			return r.Pattern == pattern
		}) {
			t.Errorf("%s: the surface has no example of it", pattern)
		}
	}
	for _, route := range all {
		t.Run(FileName(route.Pattern), func(t *testing.T) {
			var shown []string
			for _, request := range route.Requests {
				t.Run(FileName(request.Path), func(t *testing.T) {
					world.Show(t, func(t *testing.T, m *Moment) {
						shown = append(shown, Exchange(t, handler(t, m), host, request))
					})
				})
			}
			room.Compare(t, FileName(route.Pattern), strings.Join(shown, Separator))
		})
	}
}

// Separator stands between the examples of a file.
var Separator = "\n" + strings.Repeat("-", 80) + "\n\n"
