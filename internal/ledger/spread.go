package ledger

import "strconv"

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
func newIncarnation() Incarnation {
	inc := Incarnation(random())
	first := spreadOf(inc).slotRange(0)
	for s := spreadOf(inc); s.slotRange(0) != first || !s.even(); s = spreadOf(inc) {
		inc = Incarnation(random())
	}
	return inc
}

// spread is the CRC16 of the common prefix of the hash tags of a run's segments.
type spread uint16

// spreadOf returns the spread of an incarnation's segments: see segmentKeys.
func spreadOf(inc Incarnation) spread { return spread(crc16(0, string(inc)+".")) }

// even reports whether each range has within 20 % of the mean of the first n segments, for
// every n from evenFrom to evenTo.
func (s spread) even() bool {
	var counts [evenRanges]int
	for n := 1; n <= evenTo; n++ {
		counts[s.slotRange(n-1)]++
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

// slotRange returns the range of a segment's slot. Ranges begin where those of redis-cli
// --cluster create do.
func (s spread) slotRange(number int) int {
	const slots = 1 << 14
	slot := int(crc16(uint16(s), strconv.Itoa(number)) % slots)
	return (2*slot + 1) * evenRanges / (2 * slots)
}

// crc16 continues the checksum of a Cluster's hash slots, CRC16-XMODEM, with a text.
func crc16(sum uint16, text string) uint16 {
	for i := range len(text) {
		sum ^= uint16(text[i]) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum
}
