package customer

import (
	"strconv"

	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/status"
)

// difference compares a record with the one that was found instead.
type difference struct {
	OfNames         bool // else of values
	Expected, Found []part
}

// part is a part of a text. It differs if the other text does not have it there.
type part struct {
	Text    string
	Differs bool
}

// differenceOf returns the difference that a mistake makes: of the names, if the record is at
// another name, or else of the values; nil: neither is known.
func differenceOf(want Instructions, found report.Finding) *difference {
	if !dnsname.Same(found.Host, want.Host) && found.Found == "" {
		return compare(true, want.Host, dnsname.Unrooted(found.Host))
	}
	value, err := strconv.Unquote(found.Found) // of several values it fails
	if err != nil || !dnsname.Same(found.Host, want.Host) {
		return nil
	}
	return compare(false, want.TXT, value)
}

// compare returns the difference of two texts; nil: they are the same. Texts that have less than
// half of the expected one in common differ as a whole: single characters that they share say
// nothing.
func compare(ofNames bool, expected, found string) *difference {
	if expected == found {
		return nil
	}
	a := []rune(expected)
	b := []rune(found)

	// common[i][j] is the length of the longest sequence of characters that the rests from i and j
	// have in common.
	common := make([][]int, len(a)+1)
	common[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	d := &difference{OfNames: ofNames}
	if 2*common[0][0] < len(a) {
		d.Expected = add(nil, expected, true)
		d.Found = add(nil, found, true)
		return d
	}

	// The characters of that sequence are the same in both texts.
	i := 0
	j := 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			d.Expected = add(d.Expected, string(a[i]), false)
			d.Found = add(d.Found, string(b[j]), false)
			i++
			j++
		case j == len(b) || (i < len(a) && common[i+1][j] >= common[i][j+1]):
			d.Expected = add(d.Expected, string(a[i]), true)
			i++
		default:
			d.Found = add(d.Found, string(b[j]), true)
			j++
		}
	}
	return d
}

// add adds a text that can be shown, to the last part if that is of the same sort.
func add(parts []part, text string, differs bool) []part {
	text = status.Whole(text)
	if last := len(parts) - 1; last >= 0 && parts[last].Differs == differs {
		parts[last].Text += text
		return parts
	}
	return append(parts, part{text, differs})
}
