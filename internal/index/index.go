// Package index has the entries of discovery domains in a tenant's index of names: the record of
// each domain, and the result of its last check, as rows about it have found them.
//
// The index helps people, who read it. No decision about a domain uses it, but which ids a person,
// or a row that has a name, meant: the record that is read must have that name. The script that
// ends an execution stores the entry, so that it costs no command of its own, and before it may
// write at maxmemory, so that the index is refused there and the row is not. An entry takes less
// than 300 bytes. A row that was not executed yet is found by a search of all stored rows alone.
package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Entry is the entry of a discovery domain in the index of names: the record and the
// result of the last check, as the last execution of a row about it has read them.
type Entry struct {
	// Domain is the record. An empty host or TXT is too long to be kept, the flag is not kept, and of
	// the status only whether it is verified.
	discovery.Domain
	// Read is when the record was read.
	Read time.Time
	// State is the result of the last check: present, absent or unknown; "": there was none. At is
	// the end of the last execution.
	State string
	At    time.Time
	// Next is when an open row is checked next; zero: no row is open, or it is not known.
	Next time.Time
	// Run, Segment and Row name the row of that execution; the run may be deleted since.
	Run     ledger.RunID
	Segment int
	Row     ledger.Row
}

// mostNamed is how many domains of a name are read from the index.
const mostNamed = 200

// Named returns the tenant's domains of a name in the index of names. If some cannot be read
// it returns the others and an error.
func Named(ctx context.Context, l *ledger.Ledger, t ledger.Tenant, name string) (all []Entry, err error) {
	subjects, err := l.SubjectsNamed(ctx, t, name, 0, mostNamed)
	for _, s := range subjects {
		k, bad := Read(s)
		if err = cmp.Or(err, bad); bad == nil {
			all = append(all, k)
		}
	}
	return all, err
}

// NamedIn returns a function that returns the id of an organization's domain of a name by the
// tenant's index of names, "" if it has none. An index that cannot be read is no error: it only
// saves requests.
func NamedIn(l *ledger.Ledger, t ledger.Tenant) func(ctx context.Context, organization, name string) string {
	return func(ctx context.Context, organization, name string) string {
		all, _ := Named(ctx, l, t, name)
		for _, k := range all {
			if k.OrganizationID == organization {
				return k.ID
			}
		}
		return ""
	}
}

// Subject returns the form in which the index of names has the domain; nil: its name is none that
// somebody can look for.
func (k Entry) Subject() *ledger.Subject {
	name := dnsname.Key(k.Name)
	if name == "" || len(name) > maxDomain ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil
	}
	return &ledger.Subject{Name: name, ID: k.ID, At: k.At, About: k.pack(name)}
}

// maxDomain is the longest name that is stored, in bytes (RFC 1035, section 3.1, as text).
const maxDomain = 253

// knownStates are the results of a check, by the number with which they are stored.
var knownStates = []string{"", report.Present, report.Absent, report.Unknown}

// The form of a stored Entry, a byte each for: the form, the flags, the state, the length of the
// organization's id, of the host and of the run's id; three numbers of 4 bytes: Read and Next in
// Unix seconds, and the row, counted as if all segments were full; then organization, host, run
// and token. In the host, knownOrganization and knownName stand for the stored id and name, and
// knownPrefix for how the service begins hosts, since a million may be stored.
const (
	knownForm         = 1
	knownHead         = 6 + 3*4
	knownVerified     = 1 << 0
	knownHex          = 1 << 1 // the token is lower-case hexadecimal, and stored as bytes
	knownDated        = 1 << 2 // the run's id begins with a tasks.RunTime, stored as 4 bytes
	knownOrganization = "\x03"
	knownName         = "\x04"
	knownPrefix       = "\x05"
	maxKnownTXT       = 128
)

// hostPrefix is how the service begins the name of each TXT record.
const hostPrefix = "_ss-verification."

func (k Entry) pack(name string) []byte {
	host := k.Host
	if len(host) > maxDomain || strings.ContainsFunc(host, func(r rune) bool { return r < ' ' }) {
		host = ""
	}
	host = strings.NewReplacer(hostPrefix, knownPrefix, k.OrganizationID, knownOrganization, name, knownName).Replace(host)
	txt := []byte(k.TXT)
	flags := byte(0)
	if plain, err := hex.DecodeString(k.TXT); err == nil && k.TXT == strings.ToLower(k.TXT) {
		txt = plain
		flags = knownHex
	}
	if len(txt) > maxKnownTXT {
		txt = nil
	}
	if k.IsVerified() {
		flags |= knownVerified
	}
	run := string(k.Run)
	at, err := time.Parse(tasks.RunTime, run[:min(len(run), len(tasks.RunTime))])
	if err == nil && at.Equal(timeOf(unixOf(at))) {
		flags |= knownDated
		run = string(binary.BigEndian.AppendUint32(nil, unixOf(at))) + run[len(tasks.RunTime):]
	}
	b := []byte{knownForm, flags, byte(max(slices.Index(knownStates, k.State), 0)),
		byte(len(k.OrganizationID)), byte(len(host)), byte(len(run))}
	b = binary.BigEndian.AppendUint32(b, unixOf(k.Read))
	b = binary.BigEndian.AppendUint32(b, unixOf(k.Next))
	b = binary.BigEndian.AppendUint32(b, uint32(k.Segment*ledger.SegmentRows+int(k.Row)))
	return slices.Concat(b, []byte(k.OrganizationID), []byte(host), []byte(run), txt)
}

func unixOf(t time.Time) uint32 {
	if t.IsZero() {
		return 0
	}
	return uint32(t.Unix())
}

func timeOf(seconds uint32) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}

// Read reads a subject of the index of names.
func Read(s ledger.Subject) (Entry, error) {
	// The lengths of its texts.
	b := s.About
	if len(b) < knownHead || b[0] != knownForm || int(b[2]) >= len(knownStates) ||
		len(b) < knownHead+int(b[3])+int(b[4])+int(b[5]) {
		return Entry{}, fmt.Errorf("the index entry of domain %s cannot be read: it is damaged, or of a newer version", s.Name)
	}

	// The texts.
	text := string(b[knownHead:])
	take := func(n byte) (taken string) {
		taken = text[:n]
		text = text[n:]
		return taken
	}
	organization := take(b[3])
	host := take(b[4])
	run := take(b[5])
	if b[1]&knownDated != 0 && len(run) >= 4 {
		run = timeOf(binary.BigEndian.Uint32([]byte(run))).Format(tasks.RunTime) + run[4:]
	}

	// The record.
	whole := strings.NewReplacer(knownPrefix, hostPrefix, knownOrganization, organization, knownName, s.Name)
	d := discovery.Domain{
		OrganizationID: organization,
		ID:             s.ID,
		Name:           s.Name,
		Host:           whole.Replace(host),
		TXT:            text,
		Status:         schema.StatusPending,
	}
	if b[1]&knownHex != 0 {
		d.TXT = hex.EncodeToString([]byte(text))
	}
	if b[1]&knownVerified != 0 {
		d.Status = schema.StatusVerified
	}

	// The last check, and its row.
	row := int(binary.BigEndian.Uint32(b[14:]))
	return Entry{
		Domain:  d,
		Read:    timeOf(binary.BigEndian.Uint32(b[6:])),
		State:   knownStates[b[2]],
		At:      s.At,
		Next:    timeOf(binary.BigEndian.Uint32(b[10:])),
		Run:     ledger.RunID(run),
		Segment: row / ledger.SegmentRows,
		Row:     ledger.Row(row % ledger.SegmentRows),
	}, nil
}
