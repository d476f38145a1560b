package dnscheck

import (
	"bytes"
	"crypto/rand"
	"net/netip"
	"sync"
	"time"
)

// The letters of a question go out over UDP in upper or lower case at random, and most servers give them back as they came
// (draft-vixie-dnsext-dns0x20): whoever does not see the query has to guess them, beside the id and the port.

// questionName is the name in the one question of a message as it stands there, length bytes included; nil where there is
// none that stands whole. No length is an ASCII letter (RFC 1035 section 3.1), so letters can be told without it.
func questionName(message []byte) []byte {
	off := headerOctets
	for off < len(message) && message[off] != 0 {
		if message[off] > maxLabel {
			return nil
		}
		off += 1 + int(message[off])
	}
	if off >= len(message) {
		return nil
	}
	return message[headerOctets : off+1]
}

// mixLetters puts each letter of a name into upper or lower case, as nobody can foresee.
func mixLetters(name []byte) {
	random := make([]byte, len(name))
	_, _ = rand.Read(random) // never fails, as in randomID
	for i, c := range name {
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			name[i] ^= random[i] & 0x20
		}
	}
}

// restoreLetters tells whether a reply names the question in the letters that were sent. Then it puts them back to
// those that were given: names further down point to the question's, and are shown to people.
func restoreLetters(raw, sent, given []byte) bool {
	name := questionName(raw)
	if !bytes.Equal(name, sent) {
		return false
	}
	copy(name, given)
	return true
}

const (
	// foldedFor is how long a server is asked without mixed letters that did not keep them: long enough for a second query
	// to be rare, short enough for one that was replaced.
	foldedFor = time.Hour
	// mostFolders bounds how many are remembered, whatever name servers a hostile delegation has us ask.
	mostFolders = 1024
)

// folders are the servers that do not give letters back as they came. The zero value has none.
type folders struct {
	mu    sync.Mutex
	until map[netip.AddrPort]time.Time
}

func (f *folders) has(server netip.AddrPort) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.until[server])
}

// add remembers one more. Where there is no room, one whose time is up leaves, or any.
func (f *folders) add(server netip.AddrPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until == nil {
		f.until = make(map[netip.AddrPort]time.Time)
	}
	now := time.Now()
	if len(f.until) >= mostFolders {
		var leaves netip.AddrPort
		for other, until := range f.until {
			if leaves = other; !now.Before(until) {
				break
			}
		}
		delete(f.until, leaves)
	}
	f.until[server] = now.Add(foldedFor)
}
