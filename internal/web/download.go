package web

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// SendFile answers with a file that write makes. Its head is written with the first bytes, so an
// error before them is returned, to be answered as usual. A later one is logged and ends the
// connection: only that shows that the rest is missing.
func SendFile(w http.ResponseWriter, r *http.Request, name, mediaType string, log *slog.Logger,
	write func(io.Writer) error) error {
	f := file{to: w, name: name, mediaType: mediaType}
	err := write(&f)
	switch {
	case err != nil && f.begun:
		log.WarnContext(r.Context(), "download cut off", "request_id", Of(r.Context()).ID, "file", name, "error", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	}
	f.begin()
	return nil
}

type file struct {
	to              http.ResponseWriter
	name, mediaType string
	begun           bool // the head is written
}

// begin writes the head; an empty file has nothing else.
func (f *file) begin() {
	if f.begun {
		return
	}
	f.begun = true
	f.to.Header().Set("Content-Type", f.mediaType)
	f.to.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", f.name))
	f.to.WriteHeader(http.StatusOK)
}

// Write writes a part of the file.
func (f *file) Write(p []byte) (int, error) {
	f.begin()
	return f.to.Write(p)
}
