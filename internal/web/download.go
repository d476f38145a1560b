package web

import (
	"fmt"
	"net/http"
)

// Download is the answer to a request for a file, which is sent while it is made. Its head is
// written with the first bytes, so that an earlier error can be answered as usual.
type Download struct {
	To         http.ResponseWriter
	Name, Type string
	// Begun reports whether the head is written.
	Begun bool
}

// Begin writes the head; an empty file has nothing else.
func (d *Download) Begin() {
	if d.Begun {
		return
	}
	d.Begun = true
	d.To.Header().Set("Content-Type", d.Type)
	d.To.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", d.Name))
	d.To.WriteHeader(http.StatusOK)
}

// Write writes a part of the file.
func (d *Download) Write(p []byte) (int, error) {
	d.Begin()
	return d.To.Write(p)
}
