package console

import (
	"net/http"
	"slices"
	"strings"
)

// monitorRoot is where asynqmon is mounted.
const monitorRoot = "/monitor"

// Pages is the operator's pages: our own, and asynqmon at /monitor/, to those whom
// Config.Access lets in. It answers requests for loopback names, for the address that
// they came in at and for the names of Config.Access, and for no other host.
func Pages(cfg Config) http.Handler {
	mux := http.NewServeMux()
	newSite(cfg).routes(mux)
	mux.Handle(monitorRoot+"/", newMonitor(cfg))
	return newGuard(plainPaths(mux), cfg.Access, cfg.logger())
}

// plainPaths answers 404 to a path of a file that climbs, or has bytes in it that none
// of ours has, however it is written: no file system is behind these pages, and nobody
// types such a path but to find one.
func plainPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ofFile := strings.HasPrefix(r.URL.Path, monitorRoot+"/") || strings.HasPrefix(r.URL.Path, "/static/")
		climbs := slices.ContainsFunc(strings.Split(r.URL.Path, "/"), func(part string) bool { return part == ".." || part == "." })
		if ofFile && (climbs || strings.ContainsAny(r.URL.Path, "\\\x00")) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
