package serving

import (
	"fmt"
	"net/http"
	"time"
)

// Download is the answer to a request for a file, which is sent while it is made. Its head is
// written with the first bytes, so that an earlier error can be answered as usual.
type Download struct {
	To         http.ResponseWriter
	Name, Type string
	// Patience is how long the client may take to receive each part; 0: as long as the
	// server gives it for the whole answer.
	Patience time.Duration
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
	if d.Patience > 0 {
		_ = http.NewResponseController(d.To).SetWriteDeadline(time.Now().Add(d.Patience)) // where there is none, none is needed
	}
	return d.To.Write(p)
}
