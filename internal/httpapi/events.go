package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
)

// events sends a run after each change until it has ended, as server-sent events:
// GET /v1/runs/{run}/events. Each event is the whole run, so that a client that reconnects
// has missed nothing. The event's id is a hash of it, so that it is not sent twice.
func (s *Server) events(w http.ResponseWriter, r *http.Request, run view.Run) error {
	free, refused := s.streams.Take(callerOf(r.Context()).Name)
	if refused != nil {
		return refused
	}
	defer free()
	known := r.Header.Get("Last-Event-ID")
	text, id := eventOf(status.RunOf(run.Run))
	if run.Ended() && known == id {
		w.WriteHeader(http.StatusNoContent) // an EventSource does not reconnect then
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
	s.follow(r.Context(), stream, run.Tenant, string(run.ID))
	return nil
}

// follow reads the run until it has ended, the client has gone or lost its access, or the server
// stops.
func (s *Server) follow(ctx context.Context, stream *eventStream, tenant ledger.Tenant, id string) {
	poll := time.NewTicker(s.limits.Poll)
	defer poll.Stop()
	sent := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-web.Stopping(ctx):
			return
		case <-poll.C:
		}
		if !web.Of(ctx).Admitted() {
			return
		}
		run, err := s.own(ctx, tenant, id)
		if err != nil && problemOf(err).Status == http.StatusNotFound {
			return
		}
		text, eventID := eventOf(status.RunOf(run.Run))
		switch {
		case err == nil && eventID != stream.known: // if Redis does not answer, heartbeats continue
			sent = time.Now()
			if !stream.event(text, eventID) {
				return
			}
		case time.Since(sent) >= s.limits.Heartbeat:
			sent = time.Now()
			if !stream.write(": still here\n\n") {
				return
			}
		}
		if err == nil && run.Ended() {
			return
		}
	}
}

func eventOf(j status.Run) (text []byte, id string) {
	text, err := json.Marshal(j)
	if err != nil { // it has only texts and numbers
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

// write reports whether the client is still connected.
func (e *eventStream) write(text string) bool {
	_, err := e.w.Write([]byte(text))
	return err == nil && e.rc.Flush() == nil
}
