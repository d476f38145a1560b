package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"orgops/internal/runs"
)

// events tells of a run as it changes, until it has ended, as server-sent
// events: GET /v1/runs/{run}/events. Each event is the whole run, so that a
// client who comes back has missed nothing that matters; its id is a hash of
// it, by which he is not told twice what he knows.
func (s *Server) events(w http.ResponseWriter, r *http.Request, run runs.Run) error {
	if !s.streams.TryAcquire(1) {
		return busy("event streams")
	}
	defer s.streams.Release(1)
	known := r.Header.Get("Last-Event-ID")
	text, id := eventOf(runAsJSON(run))
	if run.Ended() && known == id {
		w.WriteHeader(http.StatusNoContent) // by which an EventSource knows not to come back
		return nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // as nginx would
	w.WriteHeader(http.StatusOK)
	stream := &eventStream{w: w, rc: rc, known: known}
	if r.Method == http.MethodHead || !stream.event(text, id) || run.Ended() {
		return nil
	}
	s.follow(r.Context(), stream, run.ID)
	return nil
}

// follow looks at the run until it has ended, the client has gone or the server
// stops.
func (s *Server) follow(ctx context.Context, stream *eventStream, id string) {
	look := time.NewTicker(s.limits.Look)
	defer look.Stop()
	told := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			return
		case <-look.C:
		}
		run, err := s.own(ctx, id)
		if err != nil && problemOf(err).Status == http.StatusNotFound {
			return
		}
		text, eventID := eventOf(runAsJSON(run))
		switch {
		case err == nil && eventID != stream.known: // else Redis is away, and the heart beats on
			told = time.Now()
			if !stream.event(text, eventID) {
				return
			}
		case time.Since(told) >= s.limits.Heartbeat:
			told = time.Now()
			if !stream.write(": still here\n\n") {
				return
			}
		}
		if err == nil && run.Ended() {
			return
		}
	}
}

func eventOf(j runJSON) (text []byte, id string) {
	text, err := json.Marshal(j)
	if err != nil { // text and numbers alone
		panic(fmt.Sprintf("httpapi: JSON of a run: %v", err))
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:8])
}

// eventStream writes server-sent events.
type eventStream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	known string // id of the last event that the client has
}

// event writes an event, unless the client has it. JSON has no line breaks.
func (e *eventStream) event(text []byte, id string) bool {
	if id == e.known {
		return e.write(": nothing new\n\n")
	}
	e.known = id
	return e.write(fmt.Sprintf("event: run\nid: %s\ndata: %s\n\n", id, text))
}

// write says whether the client is still there.
func (e *eventStream) write(text string) bool {
	_, err := e.w.Write([]byte(text))
	return err == nil && e.rc.Flush() == nil
}
