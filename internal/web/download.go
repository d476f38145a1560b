package web

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
)

// SendFile answers with a file that write makes. Its head is written with the first bytes, so an
// error before them is returned, to be answered as usual. A later one is logged and ends the
// connection: only that shows that the rest is missing.
func SendFile(w http.ResponseWriter, r *http.Request, name, mediaType string, log *slog.Logger,
	write func(io.Writer) error) error {
	begun := false
	begin := sync.OnceFunc(func() {
		begun = true
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
		w.WriteHeader(http.StatusOK)
	})
	err := write(file(func(p []byte) (int, error) { begin(); return w.Write(p) }))
	switch {
	case err != nil && begun:
		log.WarnContext(r.Context(), "download cut off", "request_id", Of(r.Context()).ID, "file", name, "error", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	}
	begin() // an empty file has nothing else
	return nil
}

// file writes a part of a file.
type file func([]byte) (int, error)

func (f file) Write(p []byte) (int, error) { return f(p) }
