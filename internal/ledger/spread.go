package ledger

import (
	"crypto/rand"
	"iter"
	"strconv"
	"strings"
	"sync"
)

const (
	// evenRanges is the number of equal ranges of hash slots over which segments are spread:
	// one for each of six masters, before slots are moved. Pairs of them are those of three.
	evenRanges = 6
	// Of the first evenFrom segments of a run or more, each range has within 20 % of the mean.
	// Full segments are a million rows by then. The check ends at evenTo segments: no more can
	// change that, see TestEvenIncarnations.
	evenFrom, evenTo = 122, 400
)

// newIncarnation returns a random incarnation that spreads the segments of a run over a
// Cluster. It draws until one does, about one in seventy: a segment's slot is the hash of
// incarnation and number, so no reader needs to know more than it did.
//
// Segment 0 stays in the range of the first draw. Most runs have no other segment, and the
// incarnations that are left are not equally many in all ranges.
//
// Only the last characters are drawn again: of their million combinations thousands are left,
// and a whole draw takes several times as long.
func newIncarnation() Incarnation {
	const again = 4
	first := random()
	head := first[:len(first)-again]
	sum := crc16(0, head)
	drawn := func(end string) spread { return spread(crc16(sum, end+".")) }
	want := drawn(first[len(head):]).slotRange(0)
	for {
		for text := strings.ToLower(rand.Text()); len(text) >= again; text = text[again:] {
			if s := drawn(text[:again]); s.slotRange(0) == want && s.even() {
				return Incarnation(head + text[:again])
			}
		}
	}
}

// spread is the CRC16 of the common prefix of the hash tags of a run's segments.
type spread uint16

// spreadOf returns the spread of an incarnation's segments: see segmentKeys.
func spreadOf(inc Incarnation) spread { return spread(crc16(0, string(inc)+".")) }

// even reports whether each range has within 20 % of the mean of the first n segments, for
// every n from evenFrom to evenTo.
func (s spread) even() bool {
	var counts [evenRanges]int
	for number, in := range s.ranges(firstNumbers()) {
		counts[in]++
		n := number + 1
		if n < evenFrom {
			continue
		}
		for _, count := range counts { // the mean is n/evenRanges
			if 5*evenRanges*count < 4*n || 5*evenRanges*count > 6*n {
				return false
			}
		}
	}
	return true
}

// slotRange returns the range of a segment's slot.
func (s spread) slotRange(number int) int {
	return rangeOf(crc16(uint16(s), strconv.Itoa(number)))
}

// ranges returns the number and the slotRange of each segment from 0 on, given the numberSums of
// as many. A checksum is linear: that of a number behind others is that of the number alone,
// xor that of as many zeros behind the others.
func (s spread) ranges(sums []uint16) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		zeros, longer := crc16(uint16(s), "\x00"), 10 // numbers from there on have a digit more
		for number, sum := range sums {
			if number == longer {
				zeros, longer = crc16(zeros, "\x00"), 10*longer
			}
			if !yield(number, rangeOf(zeros^sum)) {
				return
			}
		}
	}
}

// firstNumbers returns the numberSums that even takes.
var firstNumbers = sync.OnceValue(func() []uint16 { return numberSums(evenTo) })

// numberSums returns the checksums of the texts of the first n numbers.
func numberSums(n int) []uint16 {
	sums := make([]uint16, n)
	for number := range sums {
		sums[number] = crc16(0, strconv.Itoa(number))
	}
	return sums
}

// rangeOf returns the range of a checksum's slot. Ranges begin where those of redis-cli
// --cluster create do.
func rangeOf(sum uint16) int {
	const slots = 1 << 14
	return (2*int(sum%slots) + 1) * evenRanges / (2 * slots)
}

// crc16 continues the checksum of a Cluster's hash slots, CRC16-XMODEM, with a text.
func crc16(sum uint16, text string) uint16 {
	for i := range len(text) {
		sum = sum<<4 ^ crc16Table[sum>>12^uint16(text[i]>>4)]
		sum = sum<<4 ^ crc16Table[sum>>12^uint16(text[i]&15)]
	}
	return sum
}

// crc16Table has the checksums of four bits: their products with the polynomial 0x1021.
var crc16Table = [16]uint16{
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50A5, 0x60C6, 0x70E7,
	0x8108, 0x9129, 0xA14A, 0xB16B, 0xC18C, 0xD1AD, 0xE1CE, 0xF1EF,
}
