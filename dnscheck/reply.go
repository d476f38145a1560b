package dnscheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

const headerOctets = 12 // RFC 1035 section 4.1.1

// maxRecords is how many records a reply may have in all. A thousand TXT records is the most that is promised to be read
// (CASES.md, row 40); a hundred more leave room for the rest of an honest reply. 64 KiB could hold 4,660 records, each with a
// name of 255 bytes: to read those takes 20 ms and 6 MB.
const maxRecords = 1100

// The header's third and fourth byte (RFC 1035 section 4.1.1).
const (
	bitQR      = 1 << 15
	bitAA      = 1 << 10
	bitTC      = 1 << 9
	bitRA      = 1 << 7
	bitAD      = 1 << 5 // RFC 4035 section 3.2.3
	maskOpcode = 0xF << 11
	maskRCode  = 0xF
)

// errStray marks bytes that do not belong to our query: sent by others, or damaged on the way.
var errStray = errors.New("not a reply to the question")

// reply is an answer to our question, taken apart.
type reply struct {
	folded                        bool // the question came back in other letters than it was sent in
	truncated                     bool // then there is nothing more in it: whatever came along is not to be used
	authoritative, recursion      bool // AA, RA
	authenticated                 bool // AD
	rcode                         int  // the extended one (RFC 6891 section 6.1.3)
	answer, authority, additional []dns.RR
	errors                        []*dns.EDNS0_EDE
}

// parseReply takes a reply apart, if it is the reply to the question with that id, name and kind. It is stricter than the
// codec, which takes any question for ours, lying counts for an empty section, and leaves out what follows. The error is
// errStray if the bytes are nobody's or another's reply; any other error is a reply that has our id and is not an answer.
func parseReply(raw []byte, id uint16, name string, kind uint16) (reply, error) {
	if len(raw) < headerOctets {
		return reply{}, fmt.Errorf("%w: %d bytes", errStray, len(raw))
	}
	word := func(i int) uint16 { return binary.BigEndian.Uint16(raw[2*i:]) }
	flags := word(1)
	if word(0) != id || flags&bitQR == 0 {
		return reply{}, fmt.Errorf("%w: another id, or a query", errStray)
	}
	if flags&maskOpcode != dns.OpcodeQuery<<11 {
		return reply{}, errors.New("a reply with another opcode")
	}
	if word(2) != 1 {
		return reply{}, fmt.Errorf("a reply with %d questions instead of one", word(2))
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
	if records := int(word(3)) + int(word(4)) + int(word(5)); records > maxRecords {
		return reply{}, fmt.Errorf("a reply with %d records, more than %d", records, maxRecords)
	}
	for i, section := range []*[]dns.RR{&r.answer, &r.authority, &r.additional} {
		if *section, off, err = parseRecords(raw, off, int(word(3+i))); err != nil {
			return reply{}, err
		}
	}
	if off != len(raw) {
		return reply{}, fmt.Errorf("a reply with %d bytes after its end", len(raw)-off)
	}
	return r, r.takeOptions()
}

// checkQuestion compares the one question of a reply with ours, and tells where it ends.
func checkQuestion(raw []byte, name string, kind uint16) (end int, err error) {
	asked, off, err := dns.UnpackDomainName(raw, headerOctets)
	if err != nil {
		return 0, fmt.Errorf("a reply whose question cannot be read: %w", err)
	}
	if off+4 > len(raw) {
		return 0, errors.New("a reply that ends in its question")
	}
	of, class := binary.BigEndian.Uint16(raw[off:]), binary.BigEndian.Uint16(raw[off+2:])
	if canonical(asked) != canonical(name) || of != kind || class != dns.ClassINET {
		return 0, fmt.Errorf("a reply to another question: %s %s %s", shownHost(unrooted(asked)), dns.Class(class), dns.Type(of))
	}
	return off + 4, nil
}

// parseRecords reads exactly so many records.
func parseRecords(raw []byte, off, count int) (records []dns.RR, end int, err error) {
	for range count {
		// The codec makes a record out of nothing where the bytes end.
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

// takeOptions reads the one OPT record that a reply may have (RFC 6891 section 6.1.1).
func (r *reply) takeOptions() error {
	var found *dns.OPT
	for _, record := range r.additional {
		opt, ok := record.(*dns.OPT)
		switch {
		case !ok:
			continue
		case found != nil:
			return errors.New("a reply with two OPT records")
		}
		found = opt
		r.rcode |= opt.ExtendedRcode()
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				r.errors = append(r.errors, ede)
			}
		}
	}
	return nil
}

// rcodeName is the response code's mnemonic, or RCODE and its number.
func (r *reply) rcodeName() string {
	if r.rcode == dns.RcodeBadVers { // shares its number with BADSIG, which belongs to TSIG
		return "BADVERS"
	}
	if name, ok := dns.RcodeToString[r.rcode]; ok {
		return name
	}
	return fmt.Sprintf("RCODE%d", r.rcode)
}

// errorText writes the extended errors for people: name, number, and the capped text that came along.
func (r *reply) errorText() string {
	const most = 3 // enough for every resolver that was seen; a reply could hold thousands
	var texts []string
	for _, ede := range r.errors[:min(len(r.errors), most)] {
		name, ok := dns.ExtendedErrorCodeToString[ede.InfoCode]
		if !ok {
			name = "extended error"
		}
		text := fmt.Sprintf("%s (%d)", name, ede.InfoCode)
		if ede.ExtraText != "" {
			text += " " + shown(ede.ExtraText, 100)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + andMore(len(r.errors)-most)
}
