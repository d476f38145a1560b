// Package spelling finds the name that was probably meant by one that is unknown.
package spelling

import "strings"

// mostTypos is how many letters a name may differ in from the one that was probably meant.
const mostTypos = 2

// Nearest returns the name that was probably meant by one that is unknown: the one that it
// differs least from, case and separators aside. Empty: none is near.
func Nearest(unknown string, known []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "", ".", "")
	fold := func(s string) []rune { return []rune(strings.ToLower(plain.Replace(s))) }
	best := ""
	least := mostTypos + 1
	for _, name := range known {
		if d := distance(fold(unknown), fold(name), least); d < least && d < len(name)/2 {
			best = name
			least = d
		}
	}
	return best
}

// distance is the number of letters to insert, delete or replace, or of neighbours to swap, to make
// b of a (optimal string alignment); limit if there are as many or more.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	// needed[i][j] is the distance of the first i letters of a and the first j of b.
	needed := make([][]int, len(a)+1)
	for i := range needed {
		needed[i] = make([]int, len(b)+1)
		needed[i][0] = i
	}
	for j := range needed[0] {
		needed[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := needed[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			best := min(replaced, needed[i-1][j]+1, needed[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				best = min(best, needed[i-2][j-2]+1)
			}
			needed[i][j] = best
		}
	}
	return min(needed[len(a)][len(b)], limit)
}
