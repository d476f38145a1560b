// Package evidence has the facts about domains that are stored with rows: checks and proofs, the
// mistakes with a record, the values that an update has replaced, the state of a waiting row, and
// the causes by which failed rows are counted and selected.
// It executes nothing, so that reading rows does not depend on what executes them.
package evidence

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
)

// Evidence is a verdict that is stored with a row: why it waits or has expired, by the last
// check that did not find the token, or why its domain was verified, by the proof. It is
// JSON, compressed, since a million rows may have one. Strangers choose the answers of
// servers, so it is cut until it fits.
type Evidence struct {
	report.Evidence

	// Compared is the record that was verified by the proof; nil for a check.
	Compared *Record `json:"compared,omitempty"`
	// Before has the values that a row of kind [tasks.TypeUpdate] has replaced, at the time of the
	// evidence, which has no other member then; nil: the evidence is that of a check or proof.
	Before *Before `json:"before,omitempty"`
	// Record is the record that a check did not find; nil: not known. What shows the evidence takes
	// it out: the domain has its record once.
	Record *Record `json:"record,omitempty"`
	// Diagnosis is the last one. Of its findings the nearest is stored, without its sentence. They say
	// nothing unless the check found the record absent.
	report.Diagnosis
}

// Advice returns what is wrong with the record, and the remedy as far as there is one.
func (e Evidence) Advice() string {
	if f := e.nearest(); f != nil {
		return f.Advice(e.Record.Host)
	}
	return e.Sentence
}

// Mistake returns the customer's mistake with the record; empty: none was found.
func (e Evidence) Mistake() report.Mistake {
	if f := e.nearest(); f != nil {
		return f.Mistake
	}
	return ""
}

// nearest returns the nearest finding about the absent record; nil: there is none.
func (e Evidence) nearest() *report.Finding {
	if len(e.Findings) == 0 || e.Record == nil || e.State != report.Absent {
		return nil
	}
	return &e.Findings[0]
}

// Before has the values of a record before a change.
type Before struct {
	Status schema.DomainStatus `json:"status"`
	// UseForOrganizationDiscovery is nil if the record had none.
	UseForOrganizationDiscovery *bool `json:"use_for_organization_discovery,omitempty"`
}

// Verified reports whether the domain was verified.
func (b Before) Verified() bool { return b.Status == schema.StatusVerified }

// String returns the values for people.
func (b Before) String() string {
	text := "status " + untrusted.Plain(string(b.Status), untrusted.MaxValue)
	if flag := b.UseForOrganizationDiscovery; flag != nil {
		text += fmt.Sprintf(", use_for_organization_discovery %t", *flag)
	}
	return text
}

// Record is a discovery domain's record, as far as checks and proofs depend on it, in the form in
// which it is stored.
type Record struct {
	// The ids are those of a proof. A check has only the domain's, and that only if its row has the
	// domain's name instead.
	OrganizationID    string `json:"organization_id,omitempty"`
	DiscoveryDomainID string `json:"discovery_domain_id,omitempty"`
	Domain            string `json:"domain"`
	Host              string `json:"verification_host"`
	// TXT of a proof is empty if it is longer than maxPlainToken. TXTSHA256 is its hash then, in
	// hexadecimal.
	TXT       string `json:"verification_txt,omitempty"`
	TXTSHA256 string `json:"verification_txt_sha256,omitempty"`
}

// RecordOf returns the record for a check, without ids.
func RecordOf(d discovery.Domain) *Record {
	return &Record{Domain: d.Name, Host: d.Host, TXT: d.TXT}
}

// ProvenRecordOf returns the record for a proof, without a long token, of which it has the hash.
func ProvenRecordOf(d discovery.Domain) *Record {
	r := RecordOf(d)
	r.OrganizationID = d.OrganizationID
	r.DiscoveryDomainID = d.ID
	if len(r.TXT) > maxPlainToken {
		r.TXT = ""
		r.TXTSHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte(d.TXT)))
	}
	return r
}

// DiscoveryDomain returns the record as that of a row's domain. It has neither status nor flag.
func (r Record) DiscoveryDomain(organization, id string) discovery.Domain {
	return discovery.Domain{OrganizationID: organization, ID: id, Name: r.Domain, Host: r.Host, TXT: r.TXT}
}

// Proves reports whether a proof of the record is one of this domain, host and token.
func (r Record) Proves(d discovery.Domain) bool {
	other := ProvenRecordOf(d)
	return dnsname.Same(r.Domain, other.Domain) && dnsname.Same(r.Host, other.Host) &&
		r.TXT == other.TXT && r.TXTSHA256 == other.TXTSHA256
}

const (
	// maxEvidence bounds stored evidence, in bytes. Usual ones take some 220.
	maxEvidence = 1 << 10
	// maxPlainToken is the length of the longest token that is stored itself. Those of
	// the service have 32 bytes.
	maxPlainToken = 128
	// maxUnpacked bounds evidence that is decompressed. A verdict of 16 observations is 16 KB.
	maxUnpacked = 256 << 10
)

// OfCheck returns the evidence of a check.
func OfCheck(e report.Evidence, at time.Time) Evidence {
	e.At = at.UTC().Truncate(time.Second)
	for i := range e.Said {
		e.Said[i].Milliseconds = math.Round(e.Said[i].Milliseconds)
	}
	return Evidence{Evidence: e}
}

// OfProof returns the evidence of the verdict by which a domain is verified or revoked.
func OfProof(v report.Evidence, d discovery.Domain, at time.Time) Evidence {
	e := OfCheck(v, at)
	e.Compared = ProvenRecordOf(d)
	for i := range e.Said {
		if o := &e.Said[i]; o.State == report.Present {
			o.Values = nil
			o.MoreValues = 0
			o.RCode = ""
		}
	}
	return e
}

// SeenBy returns a property of each resolver that found the token, each once and in order.
func (e Evidence) SeenBy(property func(report.Observation) string) []string {
	var all []string
	for _, o := range e.Said {
		if !o.Authority && o.State == report.Present {
			all = append(all, property(o))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// cuts are how evidence is shortened, one after the other, until it fits: the number of values
// of an observation, and the length of texts. Each observation stays, with its state, as do
// the record and the finding.
var cuts = []struct{ values, text int }{{3, 120}, {1, 120}, {1, 60}, {0, 60}, {0, 30}, {0, 10}, {0, 2}}

// shortened returns the evidence as it is stored, shortened by the cut of that number: without its
// sentences, which are made of the rest, and with the nearest finding alone.
func (e Evidence) shortened(cut int) Evidence {
	c := cuts[cut]
	e.Sentence = ""
	e.Note = untrusted.Cut(e.Note, c.text)
	if c.text < 60 { // the answers say it too, with their perspectives
		e.Perspectives = nil
	}
	if len(e.Findings) > 0 {
		nearest := e.Findings[0]
		nearest.Sentence = ""
		e.Findings = []report.Finding{nearest}
	}
	e.Said = slices.Clone(e.Said)
	for i := range e.Said {
		o := &e.Said[i]
		if more := len(o.Values) - c.values; more > 0 {
			o.Values = o.Values[:c.values]
			o.MoreValues += more
		}
		if last := len(o.Aliases) - 1; last >= 0 {
			o.Aliases = []string{untrusted.Cut(o.Aliases[last], c.text)}
		}
		for _, text := range []*string{&o.Asked, &o.Address, &o.Operator, &o.Perspective, &o.EDE, &o.Err} {
			*text = untrusted.Cut(*text, c.text)
		}
		if c.text <= 2 { // the last cut: who is left out, and what was said stays
			*o = report.Observation{Asked: o.Asked, Authority: o.Authority, Operator: o.Operator, State: o.State,
				Reason: o.Reason, Authenticated: o.Authenticated}
		}
	}
	return e
}

// Pack compresses the evidence, without its sentence, to at most maxEvidence bytes.
// It leaves out the record of a check if that is too long.
func (e Evidence) Pack() ([]byte, error) {
	stored, err := compress(maxEvidence, func(cut int) any { return e.shortened(cut) })
	if err == nil && len(stored) > maxEvidence && e.Record != nil {
		without := e
		without.Record = nil
		return without.Pack()
	}
	return stored, err
}

// Read reads the evidence of a settled row's result: of a check if the row has
// expired, of the proof if its domain was verified. It has no sentence.
func Read(stored []byte) (Evidence, error) {
	var e Evidence
	err := decompress(stored, &e)
	return e, err
}

// State is stored with a row that awaits its record, of kind [tasks.TypeVerify], between its
// executions; one of [tasks.TypeRead] has it too.
type State struct {
	// Record is the discovery domain as it was read; nil: it is read by the next check.
	Record *Record `json:"record,omitempty"`
	// Found distinguishes the answers of the zone; nil: it has not answered yet.
	Found []byte `json:"w,omitempty"`
	// Since is when the zone's answer changed, if checks have become frequent again by that.
	Since time.Time `json:"s,omitzero"`
	// Diagnosed is when the record was diagnosed, a Unix second; 0: not since the zone's answer
	// changed.
	Diagnosed int64 `json:"d,omitempty"`
	// Evidence is that of the last check, with its sentence unless a finding says more; nil: the
	// token was there. Its record is the state's, and stored once.
	Evidence *Evidence `json:"evidence,omitempty"`
}

// maxSentence bounds the sentence of the evidence, in code points.
const maxSentence = 400

// Pack returns the memo of the row, if need be without the record, which is then read again.
func (s State) Pack() ([]byte, error) {
	if s.Record == nil && s.Found == nil && s.Since.IsZero() && s.Evidence == nil {
		return nil, nil
	}
	memo, err := compress(ledger.MaxNoteMemo, func(cut int) any {
		stored := s
		if s.Evidence != nil {
			e := s.Evidence.shortened(cut)
			e.Record = nil
			if s.Record == nil || s.Evidence.nearest() == nil {
				e.Sentence = untrusted.Cut(s.Evidence.Sentence, maxSentence)
			}
			stored.Evidence = &e
		}
		return stored
	})
	if err == nil && len(memo) > ledger.MaxNoteMemo && s.Record != nil {
		without := s
		without.Record = nil
		return without.Pack()
	}
	return memo, err
}

// ReadState reads the memo of a row.
func ReadState(memo []byte) (s State, err error) {
	if len(memo) == 0 {
		return s, nil
	}
	if err := decompress(memo, &s); err != nil {
		return State{}, err
	}
	if s.Evidence != nil {
		s.Evidence.Record = s.Record
	}
	return s, nil
}

// form is the first byte of compressed JSON. Another form, or dictionary, needs another byte.
const form = 2

// dictionary has the texts that most evidence contains. The compression refers to them.
//
//go:embed evidence.dictionary
var dictionary []byte

// writers has compressors, since a new one clears a megabyte. This library's are three times as
// fast with texts of a kilobyte as those of package compress/flate.
var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriterDict(nil, 6, dictionary) // the level is valid
	return w
}}

// compress compresses the JSON of a value, shortened by the first of cuts with which it has at
// most that many bytes, or by the last.
func compress(most int, value func(cut int) any) (stored []byte, err error) {
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	for cut := range cuts {
		into := bytes.NewBuffer([]byte{form})
		w.Reset(into)
		if err := errors.Join(json.NewEncoder(w).Encode(value(cut)), w.Close()); err != nil {
			return nil, fmt.Errorf("pack evidence: %w", err)
		}
		if stored = into.Bytes(); len(stored) <= most {
			break
		}
	}
	return stored, nil
}

func decompress(stored []byte, v any) error {
	if len(stored) == 0 || stored[0] != form {
		return errors.New("read evidence: unknown version: use a newer orgops")
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(stored[1:]), dictionary), maxUnpacked))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	return nil
}
