package ledger

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"orgops/internal/ids"
	"orgops/internal/untrusted"
)

// RunID names a run: 1 to 64 of A-Z, a-z, 0-9, _ and -. It is chosen by the
// submitter and is unique within a tenant.
type RunID string

// Tenant names the tenant whose request budget and credentials a run uses: 1 to 32
// of a-z, 0-9, _ and -, not beginning with _ or -.
type Tenant string

// Kind is the type of a run's rows, such as "domain:verify": 1 to 64 of a-z, 0-9,
// _, - and :.
type Kind string

// ScanOf returns the kind of the row of a scan that finds the rows of a run of that kind.
func ScanOf(k Kind) Kind { return k + ":scan" }

// Incarnation distinguishes successive runs of the same id. It is random.
type Incarnation string

// singleMark begins the incarnation of a single row, and no other.
const singleMark = "1"

// single reports whether the run was submitted by [Ledger.SubmitRow].
func (i Incarnation) single() bool { return strings.HasPrefix(string(i), singleMark) }

// Segment names a part of a run.
type Segment struct {
	Tenant      Tenant
	Run         RunID
	Incarnation Incarnation
	// Number counts from 0, or is [ScanSegment].
	Number int
}

// Row is the number of a row within its segment, from 0 to [SegmentRows]-1.
type Row int

// Token identifies one release of rows. Tokens are compared for equality only.
type Token string

// Nonce identifies one execution of rows. It is chosen by the worker, before it calls
// [Ledger.Begin], and compared for equality only.
type Nonce string

// SessionID identifies one life of a worker process.
type SessionID string

// NewToken returns a random token.
func NewToken() Token { return Token(random()) }

// NewNonce returns a random nonce.
func NewNonce() Nonce { return Nonce(random()) }

// NewSessionID returns a random session id.
func NewSessionID() SessionID { return SessionID(random()) }

// random returns 80 random bits in 16 characters. Among 10^9 of them two are equal with a
// probability of 4 in 10^7, and only values for the same row are compared.
func random() string { return strings.ToLower(rand.Text()[:16]) }

// Validate returns an error unless the id has the form of one.
func (id RunID) Validate() error { return ids.CheckRun(string(id)) }

// Validate returns an error unless the name has the form of a tenant's.
func (t Tenant) Validate() error { return ids.CheckTenant(string(t)) }

// Validate returns an error unless the kind has the form of one.
func (k Kind) Validate() error {
	if !ids.ConsistsOf(string(k), 64, "_-:") {
		return fmt.Errorf("kind %s: want 1 to 64 of a-z, 0-9, -, : or _", untrusted.Value(k))
	}
	return nil
}

// Validate returns an error unless the id has the form of a [NewSessionID].
func (s SessionID) Validate() error { return checkRandom("session", string(s)) }

// Validate returns an error unless the token has the form of a [NewToken].
func (t Token) Validate() error { return checkRandom("token", string(t)) }

// Validate returns an error unless the nonce has the form of a [NewNonce].
func (n Nonce) Validate() error { return checkRandom("nonce", string(n)) }

func checkRandom(name, text string) error {
	if len(text) != 16 || !ids.ConsistsOf(text, 16, "") {
		return fmt.Errorf("%s %s: want 16 of a-z and 0-9", name, untrusted.Value(text))
	}
	return nil
}

// String returns the segment's name among those of its tenant, as run/incarnation/number. It fits
// into a task id.
func (s Segment) String() string {
	return string(s.Run) + "/" + string(s.Incarnation) + "/" + strconv.Itoa(s.Number)
}

// ParseSegment is the inverse of [Segment.String], for a segment of the tenant.
func ParseSegment(t Tenant, text string) (Segment, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Segment{}, fmt.Errorf("segment %s: want run/incarnation/number", untrusted.Value(text))
	}
	number, err := strconv.Atoi(parts[2])
	if err != nil {
		return Segment{}, fmt.Errorf("segment %s: number: want digits", untrusted.Value(text))
	}
	s := Segment{Tenant: t, Run: RunID(parts[0]), Incarnation: Incarnation(parts[1]), Number: number}
	return s, s.Validate()
}

// Validate returns an error unless a run can have a segment of that name.
func (s Segment) Validate() error {
	if err := s.Tenant.Validate(); err != nil {
		return err
	}
	if err := s.Run.Validate(); err != nil {
		return err
	}
	if err := checkRandom("incarnation", string(s.Incarnation)); err != nil {
		return err
	}
	if s.Number < 0 || s.Number > ScanSegment {
		return fmt.Errorf("segment %d: want 0 to %d", s.Number, ScanSegment)
	}
	return nil
}
