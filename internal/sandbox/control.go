package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"orgops/internal/untrusted"
)

const (
	controlPrefix = "/_sandbox/"
	rowsMost      = 1_000_000
)

// serveControl lets other processes on this machine control the sandbox and read its logs.
// Its requests are not logged.
func (s *Sandbox) serveControl(w http.ResponseWriter, r *http.Request) {
	if !local(r) {
		http.NotFound(w, r)
		return
	}
	switch path := strings.TrimPrefix(r.URL.Path, controlPrefix); {
	case r.Method == http.MethodPost && path == "faults":
		s.postFault(w, r)
	case r.Method == http.MethodDelete && path == "faults":
		s.faults.remove(func(f *activeFault) bool { return f.posted })
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut && path == "txt":
		if body, ok := readBody(w, r, TXTRequest.check); ok {
			s.SetTXT(body.Host, body.Values...)
			w.WriteHeader(http.StatusNoContent)
		}
	case r.Method == http.MethodDelete && path == "txt":
		s.Remove(r.URL.Query().Get("host"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut && path == "ns":
		if body, ok := readBody(w, r, NSRequest.check); ok {
			s.SetNS(body.Zone, body.Servers...)
			w.WriteHeader(http.StatusNoContent)
		}
	case r.Method == http.MethodPut && path == "domains":
		s.putDomain(w, r)
	case r.Method == http.MethodPut && path == "clients":
		if body, ok := readBody(w, r, ClientRequest.check); ok {
			s.AddClient(body.Organization, body.Client, body.MemberAccess)
			s.EntitleApps(body.Organization, body.Entitlement)
			w.WriteHeader(http.StatusNoContent)
		}
	case r.Method == http.MethodPut && path == "scopes":
		if body, ok := readBody(w, r, ScopesRequest.check); ok {
			s.tokens.withheld.Store(&body.Withheld)
			w.WriteHeader(http.StatusNoContent)
		}
	case r.Method == http.MethodGet && path == "requests":
		s.getRequests(w, r)
	case r.Method == http.MethodGet && path == "counts":
		w.Header().Set("Content-Type", jsonType)
		_ = json.NewEncoder(w).Encode(s.Counts()) // the client may have disconnected
	case r.Method == http.MethodGet && path == "state":
		s.getState(w)
	case r.Method == http.MethodGet && strings.HasPrefix(path, "rows/"):
		s.getRows(w, r, strings.TrimPrefix(path, "rows/"))
	default:
		http.Error(w, "no such control path or method: "+r.Method+" "+capped(r.URL.Path), http.StatusNotFound)
	}
}

// local reports whether a client is on this machine and uses a name of loopback: a page in
// a browser that DNS has directed here uses another name.
func local(r *http.Request) bool {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !untrusted.IsLoopback(from) {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return untrusted.IsLoopback(host)
}

// getRequests returns the request log after ?since=, optionally of one ?operation=.
// Requests in progress have finished false.
func (s *Sandbox) getRequests(w http.ResponseWriter, r *http.Request) {
	since, err := integer(r.URL.Query(), "since", 0, math.MaxInt, 0)
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
			return // the client has disconnected
		}
	}
}

// State is the body of GET /_sandbox/state: domains and clients by organization id, and the
// API's records of templates.
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
	_ = json.NewEncoder(w).Encode(state) // the client may have disconnected
}

func (s *Sandbox) getRows(w http.ResponseWriter, r *http.Request, file string) {
	seed, ok := map[string]func(int) []byte{
		"domains.csv": s.SeedDomains, "updates.csv": s.SeedUpdates, "clients.csv": s.SeedClients,
		"templates.jsonl": s.SeedTemplates,
		"names.csv":       func(n int) []byte { return s.seedPending(n, "domain", true) },
		"unpublished.csv": func(n int) []byte { return s.seedPending(n, "discovery_domain_id", false) },
	}[file]
	if !ok {
		http.NotFound(w, r)
		return
	}
	contentType := "text/csv; charset=utf-8"
	if file == "templates.jsonl" {
		contentType = "application/jsonl"
	}
	n, err := integer(r.URL.Query(), "n", 0, rowsMost, 100)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(seed(n)) // the client may have disconnected
}

// TXTRequest is the body of PUT /_sandbox/txt: a host and the values of its TXT records.
type TXTRequest struct {
	Host   string   `json:"host"`
	Values []string `json:"values"`
}

func (t TXTRequest) check() error { return checkName("host", t.Host) }

func checkName(member, name string) error {
	if labels, ok := dns.IsDomainName(name); !ok || labels == 0 {
		return fmt.Errorf("%s %s: want a name", member, capped(name))
	}
	return nil
}

// NSRequest is the body of PUT /_sandbox/ns: a zone and the names of its name servers. Without
// servers the zone has no NS records.
type NSRequest struct {
	Zone    string   `json:"zone"`
	Servers []string `json:"servers"`
}

func (n NSRequest) check() error {
	if err := checkName("zone", n.Zone); err != nil {
		return err
	}
	for _, server := range n.Servers {
		if err := checkName("server", server); err != nil {
			return err
		}
	}
	return nil
}

// ScopesRequest is the body of PUT /_sandbox/scopes: the scopes that no token has, also if it was
// granted before.
type ScopesRequest struct {
	Withheld []string `json:"withheld"`
}

func (s ScopesRequest) check() error {
	for _, scope := range s.Withheld {
		if !slices.Contains(AllScopes(), scope) {
			return fmt.Errorf("scope %s: want of %s", capped(scope), strings.Join(AllScopes(), ", "))
		}
	}
	return nil
}

// DomainRequest is the body of PUT /_sandbox/domains: an organization, and a discovery domain of
// it unless the domain's name is missing. Missing members are made, as by [Sandbox.AddDomain].
type DomainRequest struct {
	Organization string `json:"organization_id"`
	Name         string `json:"organization_name"` // empty: the id
	Domain
}

func (d DomainRequest) check() error {
	switch {
	case d.Organization != "" && !organizationIDPattern.MatchString(d.Organization):
		return fmt.Errorf("organization_id %s: want the form org_…", capped(d.Organization))
	case d.ID != "" && !domainIDPattern.MatchString(d.ID):
		return fmt.Errorf("id %s: want the form ord_…", capped(d.ID))
	case d.Domain.Domain != "" && !domainNamePattern.MatchString(d.Domain.Domain):
		return fmt.Errorf("domain %s: want a name", capped(d.Domain.Domain))
	case d.Status != "" && d.Status != statusPending && d.Status != statusVerified:
		return fmt.Errorf("status %s: want pending or verified", capped(d.Status))
	}
	return nil
}

func (s *Sandbox) putDomain(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, DomainRequest.check)
	if !ok {
		return
	}
	body.Organization = s.AddOrganization(body.Organization, body.Name)
	if body.Domain.Domain != "" {
		body.Domain = s.AddDomain(body.Organization, body.Domain)
	}
	w.Header().Set("Content-Type", jsonType)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

// ClientRequest is the body of PUT /_sandbox/clients: an organization, and the client that it gets.
type ClientRequest struct {
	Organization string `json:"organization_id"`
	Client       string `json:"client_id"`
	MemberAccess bool   `json:"use_for_member_access"`
	Entitlement  bool   `json:"is_app_entitlement_active"` // of the organization
}

func (c ClientRequest) check() error {
	if !organizationIDPattern.MatchString(c.Organization) {
		return fmt.Errorf("organization_id %s: want the form org_…", capped(c.Organization))
	}
	if c.Client == "" {
		return errors.New("client_id: want one")
	}
	return nil
}

// FaultRequest is the body of POST /_sandbox/faults: the members of a [Fault] with a name in
// JSON, and these, all optional. Times are milliseconds.
type FaultRequest struct {
	Fault
	LatencyMS       int               `json:"latency_ms"`
	AnswerLatencyMS int               `json:"answer_latency_ms"`
	DripMS          int               `json:"drip_ms"`
	Header          map[string]string `json:"header"`
	WrongRecord     bool              `json:"wrong_record"` // the discovery domains in the answer are others
}

func (f FaultRequest) check() error {
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("status %d: want 200 to 599", f.Status)
	}
	if min(f.Skip, f.Count, f.LatencyMS, f.AnswerLatencyMS, f.DripMS) < 0 {
		return errors.New("skip, count and times cannot be below zero")
	}
	known := slices.ContainsFunc(operations, func(op operation) bool { return op.name == f.Operation })
	if !known && f.Operation != "" && f.Operation != OpToken {
		return fmt.Errorf("operation %s: no such operation", capped(f.Operation))
	}
	return nil
}

func otherDomain(d *Domain) {
	d.ID = "ord_0000000000000000000000"
	d.Domain = "another.example"
	d.Host = "_ss-verification.org_0000000000000000." + d.Domain
	d.TXT = "00000000000000000000000000000000"
}

func (f FaultRequest) fault() Fault {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	fault := f.Fault
	fault.Latency = ms(f.LatencyMS)
	fault.AnswerLatency = ms(f.AnswerLatencyMS)
	fault.Drip = ms(f.DripMS)
	fault.Header = http.Header{}
	for name, value := range f.Header {
		fault.Header.Set(name, value)
	}
	if f.WrongRecord {
		fault.Wrong = otherDomain
	}
	return fault
}

func (s *Sandbox) postFault(w http.ResponseWriter, r *http.Request) {
	if f, ok := readBody(w, r, FaultRequest.check); ok {
		s.faults.add(f.fault(), true)
		w.WriteHeader(http.StatusCreated)
	}
}

// readBody returns a request's body, or refuses the request. It requires application/json: a
// foreign page in a browser needs a preflight request to send it, which is refused.
func readBody[T any](w http.ResponseWriter, r *http.Request, check func(T) error) (body T, ok bool) {
	if mediaType(r.Header) != jsonType {
		http.Error(w, "want a body of "+jsonType, http.StatusUnsupportedMediaType)
		return body, false
	}
	dec := json.NewDecoder(io.LimitReader(r.Body, bodyLimit))
	dec.DisallowUnknownFields()
	err := dec.Decode(&body)
	if err == nil {
		err = check(body)
	}
	if err != nil {
		http.Error(w, "refused: "+err.Error(), http.StatusBadRequest)
	}
	return body, err == nil
}

func (s *Sandbox) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	defer s.calls.Done()
	if strings.HasPrefix(r.URL.Path, controlPrefix) {
		s.serveControl(w, r)
		return
	}
	s.serveAPI(w, r)
}
