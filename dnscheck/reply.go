package dnscheck

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

const headerSize = 12 // bytes (RFC 1035 section 4.1.1)

// maxRecords bounds the records of a reply. A thousand TXT records are supported (CASES.md,
// case 40); a hundred more leave room for the rest of the reply. 64 KiB could hold 4,660
// records with names of 255 bytes each, which take 20 ms and 6 MB to parse.
const maxRecords = 1100

// Flags in the header's third and fourth byte (RFC 1035 section 4.1.1).
const (
	bitQR      = 1 << 15
	bitAA      = 1 << 10
	bitTC      = 1 << 9
	bitRA      = 1 << 7
	bitAD      = 1 << 5 // RFC 4035 section 3.2.3
	maskOpcode = 0xF << 11
	maskRCode  = 0xF
)

// errStray marks a message that is not a reply to the query: forged, damaged, or another's.
var errStray = errors.New("not a reply to the question")

type reply struct {
	recased                       bool // the question came back with its letters in another case
	truncated                     bool // the sections are not read then
	authoritative, recursion      bool // AA, RA
	authenticated                 bool // AD
	rcode                         int  // extended (RFC 6891 section 6.1.3)
	answer, authority, additional []dns.RR
	errors                        []*dns.EDNS0_EDE
}

// parseReply parses the reply to the query with this id, name and type. The error is errStray
// for a message that is not its reply; any other error means a reply with its id that is
// invalid. doc.go says why dns.Msg does not suffice.
func parseReply(raw []byte, id uint16, name string, kind uint16) (reply, error) {
	if len(raw) < headerSize {
		return reply{}, fmt.Errorf("%w: %d bytes", errStray, len(raw))
	}
	field := func(i int) uint16 { return binary.BigEndian.Uint16(raw[2*i:]) }
	flags := field(1)
	if field(0) != id || flags&bitQR == 0 {
		return reply{}, fmt.Errorf("%w: another id, or a query", errStray)
	}
	if flags&maskOpcode != dns.OpcodeQuery<<11 {
		return reply{}, errors.New("a reply with another opcode")
	}
	if field(2) != 1 {
		return reply{}, fmt.Errorf("a reply with %d questions instead of one", field(2))
	}
	off, err := checkQuestion(raw, name, kind)
	if err != nil {
		return reply{}, err
	}
	r := reply{
		truncated:     flags&bitTC != 0,
		authoritative: flags&bitAA != 0,
		recursion:     flags&bitRA != 0,
		authenticated: flags&bitAD != 0,
		rcode:         int(flags & maskRCode),
	}
	if r.truncated {
		return r, nil
	}
	if records := int(field(3)) + int(field(4)) + int(field(5)); records > maxRecords {
		return reply{}, fmt.Errorf("a reply with %d records, more than %d", records, maxRecords)
	}
	for i, section := range []*[]dns.RR{&r.answer, &r.authority, &r.additional} {
		if *section, off, err = parseRecords(raw, off, int(field(3+i))); err != nil {
			return reply{}, err
		}
	}
	if off != len(raw) {
		return reply{}, fmt.Errorf("a reply with %d bytes after its end", len(raw)-off)
	}
	return r, r.readOptions()
}

// checkQuestion compares the reply's question with the query, and returns where it ends.
func checkQuestion(raw []byte, name string, kind uint16) (end int, err error) {
	gotName, off, err := dns.UnpackDomainName(raw, headerSize)
	if err != nil {
		return 0, fmt.Errorf("a reply whose question cannot be read: %w", err)
	}
	if off+4 > len(raw) {
		return 0, errors.New("a reply that ends in its question")
	}
	gotKind, class := binary.BigEndian.Uint16(raw[off:]), binary.BigEndian.Uint16(raw[off+2:])
	if !sameName(gotName, name) || gotKind != kind || class != dns.ClassINET {
		return 0, fmt.Errorf("a reply to another question: %s %s %s", shownHost(unrooted(gotName)), dns.Class(class), dns.Type(gotKind))
	}
	return off + 4, nil
}

// parseRecords parses exactly count records.
func parseRecords(raw []byte, off, count int) (records []dns.RR, end int, err error) {
	for range count {
		// At the end of the message UnpackRR returns an empty record.
		if off >= len(raw) {
			return nil, 0, errors.New("a reply with fewer records than it counts")
		}
		record, next, err := dns.UnpackRR(raw, off)
		if err != nil {
			return nil, 0, fmt.Errorf("a reply with a record that cannot be read: %w", err)
		}
		records, off = append(records, record), next
	}
	return records, off, nil
}

// readOptions reads the OPT record, of which there is at most one (RFC 6891 section 6.1.1).
func (r *reply) readOptions() error {
	options := recordsOf[*dns.OPT](r.additional)
	if len(options) > 1 {
		return errors.New("a reply with two OPT records")
	}
	for _, opt := range options {
		r.rcode |= opt.ExtendedRcode()
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				r.errors = append(r.errors, ede)
			}
		}
	}
	return nil
}

func recordsOf[T dns.RR](section []dns.RR) (records []T) {
	for _, record := range section {
		if r, ok := record.(T); ok {
			records = append(records, r)
		}
	}
	return records
}

// isAnswer reports whether the response code is of an answer: NOERROR or NXDOMAIN.
func (r *reply) isAnswer() bool { return r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError }

// rcodeName returns the response code's mnemonic, or RCODE and its number.
func (r *reply) rcodeName() string {
	if r.rcode == dns.RcodeBadVers { // the number is BADSIG's too, which belongs to TSIG
		return "BADVERS"
	}
	return cmp.Or(dns.RcodeToString[r.rcode], fmt.Sprintf("RCODE%d", r.rcode))
}

// errorText returns the extended errors: name, number and the server's text, capped.
func (r *reply) errorText() string {
	const most = 3 // of thousands that a reply could hold
	var texts []string
	for _, ede := range r.errors[:min(len(r.errors), most)] {
		text := fmt.Sprintf("%s (%d)", cmp.Or(dns.ExtendedErrorCodeToString[ede.InfoCode], "extended error"), ede.InfoCode)
		if ede.ExtraText != "" {
			text += " " + shown(ede.ExtraText, 100)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + andMore(len(r.errors)-most)
}
