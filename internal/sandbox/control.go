package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	controlPrefix = "/_sandbox/"
	rowsMost      = 1_000_000
)

// serveControl is for other processes on this machine: to steer the sandbox
// and to read what it was asked. It is no part of the API and not logged.
func (s *Sandbox) serveControl(w http.ResponseWriter, r *http.Request) {
	if !local(r) {
		http.NotFound(w, r)
		return
	}
	switch path := strings.TrimPrefix(r.URL.Path, controlPrefix); {
	case r.Method == http.MethodPost && path == "faults":
		s.postFault(w, r)
	case r.Method == http.MethodDelete && path == "faults":
		s.faults.remove(func(f *standing) bool { return f.posted })
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && path == "requests":
		s.getRequests(w, r)
	case r.Method == http.MethodGet && path == "counts":
		w.Header().Set("Content-Type", jsonType)
		_ = json.NewEncoder(w).Encode(s.Counts()) // the caller has gone: nobody to tell
	case r.Method == http.MethodGet && path == "state":
		s.getState(w)
	case r.Method == http.MethodGet && strings.HasPrefix(path, "rows/"):
		s.getRows(w, r, strings.TrimPrefix(path, "rows/"))
	default:
		http.Error(w, "no such control path or method: "+r.Method+" "+capped(r.URL.Path), http.StatusNotFound)
	}
}

// local says whether a caller is on this machine and calls it by a name of
// loopback: a page in a browser that was led here by DNS calls it otherwise.
func local(r *http.Request) bool {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !loopback(from) {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return host == "localhost" || loopback(host)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// getRequests answers the request log from ?since= on, of one ?operation= where
// that is given. What is still under way has finished false.
func (s *Sandbox) getRequests(w http.ResponseWriter, r *http.Request) {
	since, err := number(r, "since", 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	for _, entry := range s.log.since(int64(since)) {
		if op := r.URL.Query().Get("operation"); op != "" && op != entry.Operation {
			continue
		}
		if enc.Encode(entry) != nil {
			return // the caller has gone
		}
	}
}

func number(r *http.Request, name string, otherwise int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: want a number from 0 up, got %s", name, capped(text))
	}
	return n, nil
}

// State is what GET /_sandbox/state answers: domains and clients by
// organization id, and the templates in the form of the API's records.
type State struct {
	Domains   map[string][]Domain `json:"domains"`
	Clients   map[string][]string `json:"clients"`
	Templates []json.RawMessage   `json:"templates"`
}

func (s *Sandbox) getState(w http.ResponseWriter) {
	state := State{Domains: map[string][]Domain{}, Clients: map[string][]string{}, Templates: []json.RawMessage{}}
	for _, org := range s.Organizations() {
		if domains := s.Domains(org); domains != nil {
			state.Domains[org] = domains
		}
		if clients := s.Clients(org); clients != nil {
			state.Clients[org] = clients
		}
	}
	for _, t := range s.Templates() {
		if record, err := json.Marshal(templateRecordOf(t)); err == nil {
			state.Templates = append(state.Templates, record)
		}
	}
	w.Header().Set("Content-Type", jsonType)
	_ = json.NewEncoder(w).Encode(state) // the caller has gone: nobody to tell
}

func (s *Sandbox) getRows(w http.ResponseWriter, r *http.Request, file string) {
	var seed func(int) []byte
	contentType := "text/csv; charset=utf-8"
	switch file {
	case "domains.csv":
		seed = s.SeedDomains
	case "unpublished.csv":
		seed = s.SeedUnpublished
	case "updates.csv":
		seed = s.SeedUpdates
	case "clients.csv":
		seed = s.SeedClients
	case "templates.jsonl":
		seed, contentType = s.SeedTemplates, "application/jsonl"
	default:
		http.NotFound(w, r)
		return
	}
	n, err := number(r, "n", 100)
	if err == nil && n > rowsMost {
		err = fmt.Errorf("n: want at most %d", rowsMost)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(seed(n)) // the caller has gone: nobody to tell
}

// FaultRequest is the body of POST /_sandbox/faults: a Fault as far as JSON
// can say it. Times are milliseconds.
type FaultRequest struct {
	Operation       string            `json:"operation,omitempty"`
	Skip            int               `json:"skip,omitempty"`
	Count           int               `json:"count,omitempty"`
	LatencyMS       int               `json:"latency_ms,omitempty"`
	AnswerLatencyMS int               `json:"answer_latency_ms,omitempty"`
	Status          int               `json:"status,omitempty"`
	Body            string            `json:"body,omitempty"`
	Header          map[string]string `json:"header,omitempty"`
	HTML            bool              `json:"html,omitempty"`
	Redirect        string            `json:"redirect,omitempty"`
	Handled         bool              `json:"handled,omitempty"`
	DropBefore      bool              `json:"drop_before,omitempty"`
	DropAfter       bool              `json:"drop_after,omitempty"`
	Truncate        bool              `json:"truncate,omitempty"`
	DripMS          int               `json:"drip_ms,omitempty"`
	Endless         bool              `json:"endless,omitempty"`
	NotHTTP         bool              `json:"not_http,omitempty"`
	WrongRecord     bool              `json:"wrong_record,omitempty"` // the discovery domains in the answer are others
}

func (f FaultRequest) check() error {
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("status %d: want 200 to 599", f.Status)
	}
	if min(f.Skip, f.Count, f.LatencyMS, f.AnswerLatencyMS, f.DripMS) < 0 {
		return errors.New("skip, count and times cannot be below zero")
	}
	if f.Operation == "" || f.Operation == OpToken {
		return nil
	}
	for _, op := range operations {
		if op.name == f.Operation {
			return nil
		}
	}
	return fmt.Errorf("operation %s: no such operation", capped(f.Operation))
}

// otherDomain makes another record of one: another customer's, as far as anybody
// can tell.
func otherDomain(d *Domain) {
	d.ID, d.Domain = "ord_0000000000000000000000", "another.example"
	d.Host, d.TXT = "_ss-verification.org_0000000000000000."+d.Domain, "00000000000000000000000000000000"
}

func (f FaultRequest) fault() Fault {
	header := http.Header{}
	for name, value := range f.Header {
		header.Set(name, value)
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	var wrong func(*Domain)
	if f.WrongRecord {
		wrong = otherDomain
	}
	return Fault{
		Wrong: wrong, Operation: f.Operation, Skip: f.Skip, Count: f.Count,
		Latency: ms(f.LatencyMS), AnswerLatency: ms(f.AnswerLatencyMS), Drip: ms(f.DripMS),
		Status: f.Status, Body: f.Body, Header: header, HTML: f.HTML, Redirect: f.Redirect, Handled: f.Handled,
		DropBefore: f.DropBefore, DropAfter: f.DropAfter, Truncate: f.Truncate, Endless: f.Endless, NotHTTP: f.NotHTTP,
	}
}

// postFault wants application/json: a foreign page in a browser cannot send
// that without asking first, and is refused when it asks.
func (s *Sandbox) postFault(w http.ResponseWriter, r *http.Request) {
	if mediaType(r.Header) != jsonType {
		http.Error(w, "want a body of "+jsonType, http.StatusUnsupportedMediaType)
		return
	}
	dec := json.NewDecoder(io.LimitReader(r.Body, bodyLimit))
	dec.DisallowUnknownFields()
	var f FaultRequest
	err := dec.Decode(&f)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		http.Error(w, "fault refused: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.faults.add(f.fault(), true)
	w.WriteHeader(http.StatusCreated)
}
