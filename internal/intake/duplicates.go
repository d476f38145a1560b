package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"orgops/tasks"
)

// Duplicates are the rows of an input that ask for the same as a row before
// them. Together they are one piece of work.
type Duplicates struct {
	Total int64
	First []Duplicate // the first of them

	pairs *marks // item and line of each, and those of the row that it repeats
}

// Duplicate is one of them, by where it and the first row like it begin.
type Duplicate struct {
	Line   int `json:"line"`
	SameAs int `json:"same_as_line"`
}

// mostDuplicates is how many duplicates are told one by one.
const mostDuplicates = 10

// duplicateFinder looks for rows with the same identity. Rows are compared by
// 128 bits of SHA-256: no two others agree in these, by chance or by design.
type duplicateFinder struct {
	seen     *marks
	most     int
	identity []byte
}

func newDuplicateFinder(most int) *duplicateFinder {
	return &duplicateFinder{seen: newMarks(most), most: most}
}

func (f *duplicateFinder) add(r Record, row tasks.Row) error {
	f.identity = row.AppendIdentity(f.identity[:0])
	if len(f.identity) == 0 {
		return nil
	}
	sum := sha256.Sum256(f.identity)
	var m mark
	copy(m[:16], sum[:])
	putPlace(m[16:], r.Item, r.Line)
	return f.seen.add(m)
}

// putPlace and placeAt write and read where a row is. A run's rows are fewer
// than 2^32, and so are the lines that errors are of use for.
func putPlace(to []byte, item int64, line int) {
	binary.BigEndian.PutUint32(to, uint32(item))
	binary.BigEndian.PutUint32(to[4:], uint32(line))
}

func placeAt(from []byte) (item int64, line int) {
	return int64(binary.BigEndian.Uint32(from)), int(binary.BigEndian.Uint32(from[4:]))
}

// found returns the duplicates, and lets go of what it took to find them.
func (f *duplicateFinder) found() (d Duplicates, err error) {
	d.pairs = newMarks(f.most)
	defer func() {
		err = errors.Join(err, f.close())
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	var first mark
	for m, err := range f.seen.sorted() {
		if err != nil {
			return d, err
		}
		if [16]byte(m[:16]) != [16]byte(first[:16]) {
			first = m
			continue
		}
		d.Total++
		var pair mark
		copy(pair[:], m[16:])
		copy(pair[8:], first[16:])
		if err := d.pairs.add(pair); err != nil {
			return d, err
		}
	}
	for pair, err := range d.pairs.sorted() {
		if err != nil {
			return d, err
		}
		if len(d.First) == mostDuplicates {
			break
		}
		_, line := placeAt(pair[:])
		_, same := placeAt(pair[8:])
		d.First = append(d.First, Duplicate{Line: line, SameAs: same})
	}
	return d, nil
}

func (f *duplicateFinder) close() error {
	seen := f.seen
	f.seen = nil
	return seen.close()
}

func (d Duplicates) close() error { return d.pairs.close() }

// inOrder gives item and fate of every duplicate.
func (d Duplicates) inOrder() iter.Seq2[repeated, error] {
	return func(yield func(repeated, error) bool) {
		for pair, err := range d.pairs.sorted() {
			item, _ := placeAt(pair[:])
			same, line := placeAt(pair[8:])
			if !yield(repeated{item, same, line}, err) || err != nil {
				return
			}
		}
	}
}

// repeated is a row that asks for the same as one before it, which is row same
// and begins at line.
type repeated struct {
	item, same int64
	line       int
}

func (r repeated) fate() fate {
	return fate{tasks.Unchanged, fmt.Sprintf("the same as row %d (line %d)", r.same, r.line)}
}
