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
	best, least := "", mostTypos+1
	for _, name := range known {
		if d := distance(fold(unknown), fold(name), least); d < least && d < len(name)/2 {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete or replace to make b of a
// (Levenshtein); limit if there are as many or more.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, ca := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, cb := range b {
			replaced := diagonal
			if ca != cb {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
