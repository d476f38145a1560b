package intake

import (
	"crypto/sha256"

	"orgops/tasks"
)

// Duplicates are the rows of an input that ask for the same as an earlier row of it. The
// earlier row is the only one that becomes work.
type Duplicates struct {
	Total int64       `json:"rows"`
	First []Duplicate `json:"first"` // the first of them
}

// Duplicate is one of them: the lines in which it and the first row like it begin.
type Duplicate struct {
	Line   int `json:"line"`
	SameAs int `json:"same_as_line"`
}

// mostDuplicates is how many duplicates are listed one by one.
const mostDuplicates = 10

func (d *Duplicates) add(one Duplicate) {
	if d.Total++; len(d.First) < mostDuplicates {
		d.First = append(d.First, one)
	}
}

// duplicateFinder finds rows with the same identity. It keeps 128 bits of the SHA-256 of each
// identity: no two others agree in these, by chance or by design. A million rows take 40 MB.
type duplicateFinder struct {
	seen     map[[16]byte]place
	identity []byte
}

// place is where a row is. A run has fewer than 2^32 rows, and so are the lines that errors
// are of use for.
type place struct{ item, line uint32 }

// first returns the place of the first row with the identity of this one, which may be this
// row itself. Rows without an identity are never duplicates.
func (f *duplicateFinder) first(r Record, row tasks.Row) place {
	here := place{uint32(r.Item), uint32(r.Line)}
	f.identity = row.AppendIdentity(f.identity[:0])
	if len(f.identity) == 0 {
		return here
	}
	sum := sha256.Sum256(f.identity)
	key := [16]byte(sum[:])
	if first, ok := f.seen[key]; ok {
		return first
	}
	f.seen[key] = here
	return here
}
