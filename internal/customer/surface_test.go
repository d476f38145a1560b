package customer

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"orgops/internal/status"
	"orgops/internal/surface"
)

// fromPage are the headers of a request by the page itself.
var fromPage = map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": address}

// surfaceOf are the routes with their examples. A path names the domain instead of its token,
// whose link is made before.
var surfaceOf = surface.Routes{
	{"GET /{token}", []surface.Request{
		{Method: http.MethodGet, Path: "/ord_11"}, {Method: http.MethodGet, Path: "/ord_03"},
		{Method: http.MethodGet, Path: "/ord_05"}, {Method: http.MethodGet, Path: "/ord_01"},
		{Method: http.MethodGet, Path: "/ord_17"}, {Method: http.MethodGet, Path: "/ord_26"},
		{Method: http.MethodGet, Path: "/no-such-link"},
	}},
	{"POST /{token}", []surface.Request{
		{Method: http.MethodPost, Path: "/ord_11", Header: fromPage},
		{Method: http.MethodPost, Path: "/ord_01", Header: fromPage},
		{Method: http.MethodPost, Path: "/ord_11", Header: map[string]string{"Sec-Fetch-Site": "cross-site"},
			Note: "from another site"},
	}},
	{"GET /page.css", []surface.Request{{Method: http.MethodGet, Path: "/page.css", Brief: "static/page.css"}}},
	{"GET /page.js", []surface.Request{{Method: http.MethodGet, Path: "/page.js", Brief: "static/page.js"}}},
}

// TestSurface compares what the page shows of domains of the fixed world.
func TestSurface(t *testing.T) {
	room, world, key := surface.Open(t, "customer"), surface.New(t), surface.LinkKey(t)
	var patterns []string
	for _, route := range new(page).routes() {
		patterns = append(patterns, route.Pattern)
	}
	surfaceOf.Compare(t, room, world, "verify.example.com", patterns, func(t *testing.T, m *surface.Moment) http.Handler {
		log := slog.New(slog.DiscardHandler)
		links, err := Settings{LinkKeys: []string{key}, LinkURL: address}.Open(m.Redis, m.Ledger, log)
		if err != nil {
			t.Fatal(err)
		}
		page, err := PageSettings{Company: "Example", Color: "#0b57b4"}.Handler(links, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id := strings.TrimPrefix(r.URL.Path, "/"); strings.HasPrefix(id, "ord_") {
				d, err := status.Report(t.Context(), m.Redis, m.Ledger, surface.Acme, id)
				if err != nil {
					t.Fatal(err)
				}
				link, err := links.Make(t.Context(), d, 14*24*time.Hour, "")
				if err != nil {
					t.Fatal(err)
				}
				r.URL.Path = strings.TrimPrefix(link.URL, address)
			}
			page.ServeHTTP(w, r)
		})
	})
}
