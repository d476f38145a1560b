package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

//go:embed static
var static embed.FS

// staticFile is a file of the pages, which other pages of this or another version name by its
// content, so that browsers may store it for ever.
type staticFile struct {
	path    string // that pages name: /static/NAME.HASH.EXTENSION
	content []byte
}

// staticFiles are all of them, by their names.
var staticFiles = readStatic()

func readStatic() map[string]staticFile {
	files := map[string]staticFile{}
	entries, _ := static.ReadDir("static") // it is part of the binary
	for _, entry := range entries {
		name := entry.Name()
		content, _ := static.ReadFile("static/" + name)
		sum, extension := sha256.Sum256(content), path.Ext(name)
		files[name] = staticFile{
			path:    "/static/" + strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension,
			content: content,
		}
	}
	return files
}

// asset returns the path of a static file.
func asset(name string) string { return staticFiles[name].path }

// serveStatic serves a static file under its present path alone: GET /static/{file}.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	for name, file := range staticFiles {
		if r.URL.Path == file.path {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
			http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(file.content))
			return
		}
	}
	http.NotFound(w, r)
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
