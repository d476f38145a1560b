package sandbox

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Fault is a misbehaviour. Of all faults only the first one that matches a request applies
// to it. Zero members have no effect.
type Fault struct {
	Operation string `json:"operation"` // one of the Op names; empty: every request
	// the requests; nil: all. Status and the members after it are not set yet
	Match func(Request) bool `json:"-"`
	Skip  int                `json:"skip"`  // the number of matching requests before the first fault
	Count int                `json:"count"` // the number of faults; 0: until it is removed

	// before the request is handled, in real time; it is executed even if the client has disconnected
	Latency       time.Duration `json:"-"`
	AnswerLatency time.Duration `json:"-"` // between the execution of the request and its answer

	// An answer instead of the operation's. With only Body or Header the status is 200 or
	// the operation's, with only HTML 502, with only Redirect 302. Status without Body has
	// the service's error body.
	Status   int         `json:"status"`
	Body     string      `json:"body"` // unchanged, of type application/json unless Header sets another
	Header   http.Header `json:"-"`
	HTML     bool        `json:"html"`     // a proxy's page, which contains Body
	Redirect string      `json:"redirect"` // Location
	Handled  bool        `json:"handled"`  // the request is executed first

	// changes the discovery domains in the answer, not the tenant's; it must not call the sandbox
	Wrong func(*Domain) `json:"-"`

	DropBefore bool          `json:"drop_before"` // the connection is reset, and the request not executed
	DropAfter  bool          `json:"drop_after"`  // the request is executed, then the connection is reset
	Truncate   bool          `json:"truncate"`    // the connection ends half-way through the answer's body
	Drip       time.Duration `json:"-"`           // between two bytes of the body
	Endless    bool          `json:"endless"`     // the body continues as long as the client reads
	NotHTTP    bool          `json:"not_http"`    // the answer is not HTTP, and the request not executed
}

// faults has the active faults, in the order of their addition.
type faults struct {
	mu     sync.Mutex
	active []*activeFault
}

type activeFault struct {
	Fault
	posted  bool // through the control path
	matched int  // requests
}

// AddFault adds a fault and returns the function that removes it, which may be called twice.
func (s *Sandbox) AddFault(f Fault) (remove func()) {
	added := s.faults.add(f, false)
	return func() { s.faults.remove(func(f *activeFault) bool { return f == added }) }
}

func (f *faults) add(fault Fault, posted bool) *activeFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := &activeFault{Fault: fault, posted: posted}
	f.active = append(f.active, added)
	return added
}

func (f *faults) remove(which func(*activeFault) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.DeleteFunc(slices.Clone(f.active), which)
}

// claim returns the fault of a request and counts it. It calls Match without the lock:
// Match may add and remove faults.
func (f *faults) claim(r Request) Fault {
	f.mu.Lock()
	active := f.active
	f.mu.Unlock()
	for _, fault := range active {
		if (fault.Operation != "" && fault.Operation != r.Operation) || (fault.Match != nil && !fault.Match(r)) {
			continue
		}
		if f.apply(fault) {
			return fault.Fault
		}
	}
	return Fault{}
}

// apply reports whether the fault applies now, and removes it after the last time.
func (f *faults) apply(fault *activeFault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.active, fault) {
		return false
	}
	if fault.matched++; fault.matched <= fault.Skip {
		return false
	}
	if fault.matched == fault.Skip+fault.Count {
		f.active = slices.DeleteFunc(slices.Clone(f.active), func(a *activeFault) bool { return a == fault })
	}
	return true
}

// replaces reports whether the fault has an answer of its own.
func (f Fault) replaces() bool {
	return f.Status != 0 || f.Body != "" || f.HTML || f.Redirect != ""
}
