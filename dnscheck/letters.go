package dnscheck

import (
	"bytes"
	"crypto/rand"
	"time"

	"github.com/miekg/dns"
)

// The letters of a question go out over UDP in upper or lower case at random, and most servers return them as they came
// (draft-vixie-dnsext-dns0x20): an attacker who does not see the query has to guess them, with the id and the port.

// foldedFor is how long a server that did not keep the letters is asked without mixed ones: long enough for a second query
// to be rare, short enough for a server that was replaced.
const foldedFor = time.Hour

// questionName is the name in a query that pack has written, as it stands there, length bytes included. No length is an
// ASCII letter (RFC 1035 section 3.1).
func questionName(query []byte) []byte {
	_, end, _ := dns.UnpackDomainName(query, headerOctets)
	return query[headerOctets:end]
}

// mixLetters puts each letter of a name into upper or lower case, unpredictably.
func mixLetters(name []byte) {
	random := make([]byte, len(name))
	_, _ = rand.Read(random) // never fails, as in randomID
	for i, c := range name {
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			name[i] ^= random[i] & 0x20
		}
	}
}

// restoreLetters reports whether a reply names the question in the letters that were sent. Then it puts back those that
// were given: names further down point to the question's, and are shown to people.
func restoreLetters(reply, sent, given []byte) bool {
	if len(reply) < headerOctets || !bytes.HasPrefix(reply[headerOctets:], sent) {
		return false
	}
	copy(reply[headerOctets:], given)
	return true
}
