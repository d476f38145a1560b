package console

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

//go:embed static
var static embed.FS

// asset returns the address of a static file. It has a hash of the content, so that browsers may
// store the file for ever, and none of another version is stored under it.
func asset(name string) string {
	content, _ := static.ReadFile("static/" + name) // nothing is served at the address of a missing file
	sum := sha256.Sum256(content)
	return fmt.Sprintf("/static/%s?%x", name, sum[:6])
}

// serveStatic serves a static file under its present address alone: GET /static/{file}. missing
// answers any other address.
func serveStatic(missing http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("file")
		if r.URL.RequestURI() != asset(name) {
			missing(w, r)
			return
		}
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		http.ServeFileFS(w, r, static, "static/"+name)
	}
}

// compressed compresses the answers of a handler with gzip, but short ones and those whose media
// type is compressed already.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false))
	if err != nil { // the options are constants
		panic(err)
	}
	return wrap(next)
}
