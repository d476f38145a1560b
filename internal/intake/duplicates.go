package intake

import (
	"crypto/sha256"
	"hash/maphash"

	"orgops/internal/rowfile"
	"orgops/tasks"
)

// Duplicates are the rows of an input that ask for the same as an earlier row of it. The
// earlier row is the only one that becomes work. All of them are counted, and the first
// [StoredDuplicates] are rows of the run.
type Duplicates struct {
	Total int64       `json:"rows"`
	First []Duplicate `json:"first,omitempty"` // the first of them
}

// Duplicate is one of them: the lines, from 1, in which it and the first row like it begin, and the
// numbers of the two rows, from 0.
type Duplicate struct {
	Line      int   `json:"line"`
	Row       int64 `json:"row"`
	SameAs    int   `json:"same_as_line"`
	SameAsRow int64 `json:"same_as_row"`
}

// StoredDuplicates is how many duplicates become rows of the run, settled as unchanged, so that
// people find them among its results. A stored one takes 98 bytes of Redis, and hardly one of a
// gzipped body: 153 KB became 98 MB.
const StoredDuplicates = 1000

// mostDuplicates is how many duplicates are listed one by one.
const mostDuplicates = 10

func (d *Duplicates) add(one Duplicate) {
	if d.Total++; len(d.First) < mostDuplicates {
		d.First = append(d.First, one)
	}
}

// duplicateFinder finds rows about the same subject. It keeps 128 bits of the SHA-256 of each
// subject: no two others agree in these, by chance or by design. A million rows take 45 MB.
type duplicateFinder struct {
	seen map[[16]byte]place
	seed maphash.Seed // nobody can choose identities that agree
	text []byte
}

// place is where a row is, with a hash of its identity: one of four billion contradictions is
// taken for a duplicate. A run has fewer than 2^32 rows, and so are the lines that errors are
// of use for.
type place struct{ item, line, identity uint32 }

func newDuplicateFinder() duplicateFinder {
	return duplicateFinder{seen: map[[16]byte]place{}, seed: maphash.MakeSeed()}
}

// first returns the place of the first row about the subject of this one, which may be this
// row itself, and whether the two are the same work.
func (f *duplicateFinder) first(r rowfile.Record, row tasks.Row) (first place, same bool) {
	f.text = row.AppendSubject(f.text[:0])
	sum := sha256.Sum256(f.text)
	key := [16]byte(sum[:])
	f.text = row.AppendIdentity(f.text[:0])
	here := place{uint32(r.Item), uint32(r.Line), uint32(maphash.Bytes(f.seed, f.text))}
	first, found := f.seen[key]
	if !found {
		f.seen[key] = here
		return here, true
	}
	return first, first.identity == here.identity
}
