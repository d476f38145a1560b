package sandbox

import (
	"strconv"
	"sync"
	"time"
)

const (
	defaultRemember = 200_000 // many times the requests of a test of a few thousand rows
	loggedBody      = 1024    // bytes of a body: every PATCH and a DELETE of 25 clients fit
)

// Request is one request that arrived at the API or the token endpoint.
type Request struct {
	Seq          int64     `json:"seq"`                    // counts from 1 in order of arrival
	At           time.Time `json:"at"`                     // when it was read, by the sandbox's clock
	Operation    string    `json:"operation"`              // one of the Op names; empty for an unknown path or method
	Method       string    `json:"method"`                 //
	Path         string    `json:"path"`                   // with the escapes of the request
	Query        string    `json:"query,omitempty"`        // without the question mark
	Organization string    `json:"organization,omitempty"` // from the path
	Domain       string    `json:"domain,omitempty"`       // the discovery domain's id, from the path
	Clients      []string  `json:"clients,omitempty"`      // of a removal, as far as the body could be read
	// name in a template's creation, as far as the body could be read
	Template      string `json:"template,omitempty"`
	Body          string `json:"body,omitempty"` // its first 1,024 bytes; of a token request without its secret
	CorrelationID string `json:"correlation_id,omitempty"`
	Status        int    `json:"status"`   // of the answer; 0: there was none
	Handled       bool   `json:"handled"`  // it was executed; false if a fault answered instead
	Lost          bool   `json:"lost"`     // the client got no complete answer
	Finished      bool   `json:"finished"` // Status, Handled and Lost are final
}

// requestLog has the last requests, and counts all.
type requestLog struct {
	counts *counts

	mu      sync.Mutex
	entries tail[Request]
}

func newRequestLog(remember int) *requestLog {
	return &requestLog{counts: newCounts(), entries: tail[Request]{least: remember}}
}

// begin logs an arrival and sets its number.
func (l *requestLog) begin(r Request) Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Seq = l.entries.next()
	l.entries.add(r)
	return r
}

func (l *requestLog) finish(r Request, status int, handled, lost bool) {
	l.counts.add(r.Operation, r.Path+"?"+r.Query, strconv.Itoa(status))
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries.at(r.Seq); e != nil {
		e.Status = status
		e.Handled = handled
		e.Lost = lost
		e.Finished = true
	}
}

func (l *requestLog) since(seq int64) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries.since(seq)
}
