package sandbox

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is one way to misbehave. The first fault that fits a request is
// applied to it, and no other. What is not set does nothing.
type Fault struct {
	Operation string             `json:"operation"` // one of the Op names; empty: every request
	Match     func(Request) bool `json:"-"`         // and this says so; nil: it does. Status and what follows it are not known yet
	Skip      int                `json:"skip"`      // so many requests that fit are let through first
	Count     int                `json:"count"`     // then it is applied so many times; 0: until it is removed

	Latency       time.Duration `json:"-"` // the request is not looked at before, in real time; it is then carried out even where the caller has gone
	AnswerLatency time.Duration `json:"-"` // the answer is held back for so long after the request was carried out

	// An answer in place of the operation's. Where only Body or Header is set,
	// the status is 200 or the operation's own; HTML alone is a 502, Redirect
	// alone a 302. Status without Body has the service's error body.
	Status   int         `json:"status"`
	Body     string      `json:"body"` // as it is, of type application/json unless Header says otherwise
	Header   http.Header `json:"-"`
	HTML     bool        `json:"html"`     // a page as a proxy makes it, with Body in it
	Redirect string      `json:"redirect"` // Location
	Handled  bool        `json:"handled"`  // the request is carried out before it is answered so

	Wrong func(*Domain) `json:"-"` // changes the discovery domains in the answer, not those of the tenant; it must not call the sandbox

	DropBefore bool          `json:"drop_before"` // the connection is reset, the request never looked at
	DropAfter  bool          `json:"drop_after"`  // the request is carried out, then the connection is reset
	Truncate   bool          `json:"truncate"`    // the connection ends half-way through the answer's body
	Drip       time.Duration `json:"-"`           // between one byte of the body and the next
	Endless    bool          `json:"endless"`     // the body goes on for as long as the caller reads
	NotHTTP    bool          `json:"not_http"`    // what comes back is no HTTP; the request is never looked at
}

// faults are those that stand, in the order in which they were added.
type faults struct {
	mu    sync.Mutex
	stand []*standing
}

type standing struct {
	Fault
	posted  bool // through the control path
	skip    int
	applied int
}

// AddFault adds a fault and returns its remover, which may be called twice.
func (s *Sandbox) AddFault(f Fault) (remove func()) {
	added := s.faults.add(f, false)
	return func() { s.faults.remove(func(s *standing) bool { return s == added }) }
}

func (f *faults) add(fault Fault, posted bool) *standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := &standing{Fault: fault, posted: posted, skip: fault.Skip}
	f.stand = append(f.stand, added)
	return added
}

func (f *faults) remove(which func(*standing) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stand = slices.DeleteFunc(slices.Clone(f.stand), which)
}

// claim finds the fault for a request and counts it. Match is called without
// the lock: it may add and remove faults.
func (f *faults) claim(r Request) Fault {
	f.mu.Lock()
	standing := f.stand
	f.mu.Unlock()
	for _, fault := range standing {
		if fault.Operation != "" && fault.Operation != r.Operation || fault.Match != nil && !fault.Match(r) {
			continue
		}
		if f.apply(fault) {
			return fault.Fault
		}
	}
	return Fault{}
}

// apply says whether the fault is due, and removes it where that was the last
// time.
func (f *faults) apply(fault *standing) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.stand, fault) {
		return false
	}
	if fault.skip > 0 {
		fault.skip--
		return false
	}
	fault.applied++
	if fault.applied == fault.Count {
		f.stand = slices.DeleteFunc(slices.Clone(f.stand), func(s *standing) bool { return s == fault })
	}
	return true
}

// replaces says whether the fault brings an answer of its own.
func (f Fault) replaces() bool {
	return f.Status != 0 || f.Body != "" || f.HTML || f.Redirect != ""
}

// faulty makes the answer under a fault, and says whether the request was
// carried out.
func (s *Sandbox) faulty(c *call, f Fault) (a answer, handled bool) {
	c.wrong = f.Wrong
	handled = f.Handled || !f.replaces()
	if handled {
		a = s.answer(c)
	}
	if f.replaces() {
		a = f.answer()
	}
	return a.with(f.Header), handled
}

func (f Fault) answer() answer {
	status := f.Status
	switch {
	case status != 0:
	case f.HTML:
		status = http.StatusBadGateway
	case f.Redirect != "":
		status = http.StatusFound
	default:
		status = http.StatusOK
	}
	a := refuse(status, "", "")
	switch {
	case f.HTML:
		a.raw = []byte("<html><head><title>" + http.StatusText(status) + "</title></head><body>" + f.Body + "</body></html>\n")
		a.header.Set("Content-Type", "text/html; charset=utf-8")
	case f.Body != "":
		a.raw = []byte(f.Body)
		a.header.Set("Content-Type", "application/json; charset=utf-8")
	case status < 300 || f.Redirect != "":
		a.body = nil
	}
	if f.Redirect != "" {
		a.header.Set("Location", f.Redirect)
	}
	return a
}

// send writes an answer as the fault has it.
func (s *Sandbox) send(w http.ResponseWriter, r *http.Request, a answer, f Fault) {
	body, contentType := a.encode()
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat)) // of the clock that x-ratelimit-reset is told by
	maps.Copy(w.Header(), a.header)
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		body = nil
	} else if !f.Endless {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(a.status)
	switch {
	case f.Endless:
		for blank := []byte(strings.Repeat(" ", 32<<10)); r.Context().Err() == nil && s.closing.Err() == nil && write(w, blank); {
			continue
		}
	case f.Truncate:
		write(w, body[:len(body)/2])
		panic(http.ErrAbortHandler) // ends the connection without the rest
	case f.Drip > 0:
		for i := range body {
			s.pause(f.Drip)
			if r.Context().Err() != nil || !write(w, body[i:i+1]) {
				return
			}
		}
	default:
		write(w, body)
	}
}

// write sends what is given at once; false: the caller has gone.
func write(w http.ResponseWriter, body []byte) bool {
	if _, err := w.Write(body); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}

// writeNoHTTP answers with what a server of another protocol might, a TLS alert, and
// ends the connection.
func writeNoHTTP(w http.ResponseWriter) {
	conn := hijack(w)
	_, _ = conn.Write([]byte("\x15\x03\x01\x00\x02\x02\x46\r\n\r\n")) // the caller has gone: nobody to tell
	_ = conn.Close()
}

// reset ends the connection with an RST, as a crash or a broken network does.
func reset(w http.ResponseWriter) {
	conn := hijack(w)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it Close says goodbye in order
	}
	_ = conn.Close()
}

func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}
