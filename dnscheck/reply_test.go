package dnscheck_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// replyOf returns a reply to (1, _verify.example.com, TXT) with the given numbers of records
// per section. Each record is as short as a TXT record of one character can be: 4,660 fit into
// 64 KiB.
func replyOf(answer, authority, additional int) []byte {
	m := new(dns.Msg)
	m.SetQuestion("_verify.example.com.", dns.TypeTXT)
	m.Id, m.Response = 1, true
	raw, err := m.Pack()
	if err != nil {
		panic(err)
	}
	for i, count := range []int{answer, authority, additional} {
		binary.BigEndian.PutUint16(raw[6+2*i:], uint16(count))
		for range count {
			raw = append(raw, 0xC0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, 2, 1, 'x')
		}
	}
	return raw
}

// TestRepliesOfManyRecords checks that a reply with more than MaxRecords records, in any
// sections, is rejected before they are parsed.
func TestRepliesOfManyRecords(t *testing.T) {
	const most = dnscheck.MaxRecords
	tests := []struct {
		name     string
		sections [3]int
		taken    bool
	}{
		{"as many as are read", [3]int{most, 0, 0}, true},
		{"as many in three sections", [3]int{most - 200, 100, 100}, true},
		{"one more in the answer", [3]int{most + 1, 0, 0}, false},
		{"one more in the authority section", [3]int{1, most, 0}, false},
		{"one more in the additional section", [3]int{1, 0, most}, false},
		{"64 KiB of records", [3]int{4660, 0, 0}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			raw := replyOf(test.sections[0], test.sections[1], test.sections[2])
			if len(raw) > 1<<16-1 {
				t.Fatalf("the test's reply has %d bytes", len(raw))
			}
			read := func() ([3]int, error) {
				sections, _, _, _, err := dnscheck.ReadReply(raw, 1, "_verify.example.com", token)
				return sections, err
			}
			sections, err := read()
			if test.taken {
				if err != nil || sections != test.sections {
					t.Errorf("sections %v, %v; want %v", sections, err, test.sections)
				}
				return
			}
			total := test.sections[0] + test.sections[1] + test.sections[2]
			if want := fmt.Sprintf("a reply with %d records, more than %d", total, most); err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
			// Only the question is parsed.
			if allocs := testing.AllocsPerRun(10, func() { _, _ = read() }); allocs > 50 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
	t.Run("counts that the bytes do not bear out", func(t *testing.T) {
		raw := replyOf(1, 0, 0)
		for i := 6; i < 12; i++ {
			raw[i] = 0xFF // the sum does not fit into 16 bits
		}
		_, _, _, _, err := dnscheck.ReadReply(raw, 1, "_verify.example.com", token)
		if err == nil || !strings.Contains(err.Error(), "196605 records") {
			t.Errorf("error %v", err)
		}
	})
}

// TestReplyOfTooManyRecordsIsUnknown checks that a token among too many records is no proof,
// and that the observation has the reason.
func TestReplyOfTooManyRecordsIsUnknown(t *testing.T) {
	values := make([]string, 0, 2*dnscheck.MaxRecords)
	for range cap(values) - 1 {
		values = append(values, "x")
	}
	z := holding(append(values, token)...)
	truncated := func(query []byte, send func([]byte)) {
		zone(func(q *dns.Msg) *dns.Msg {
			m := answer(q)
			m.Truncated = true
			return m
		}).udp(query, send)
	}
	v := look(t, checker(t, serve(t, truncated, func(query []byte, conn net.Conn) {
		q := new(dns.Msg)
		if err := q.Unpack(query); err != nil {
			t.Error(err)
			return
		}
		m := z(q)
		m.Compress = true
		raw, err := m.Pack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write(frame(raw))
	})))
	want(t, v, dnscheck.Unknown, dnscheck.ReasonMalformed)
	if o := v.Observations[0]; !strings.Contains(o.Err, "records, more than") {
		t.Errorf("observed %q", o.Err)
	}
}
