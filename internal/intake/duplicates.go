package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"orgops/tasks"
)

// Duplicates are the rows of an input that ask for the same as a row before
// them. Together they are one piece of work.
type Duplicates struct {
	Total int64
	First []Duplicate // the first of them
}

// Duplicate is one of them, by where it and the first row like it begin.
type Duplicate struct {
	Line   int `json:"line"`
	SameAs int `json:"same_as_line"`
}

// mostDuplicates is how many duplicates are listed one by one.
const mostDuplicates = 10

// duplicateFinder looks for rows with the same identity. Rows are compared by
// 128 bits of SHA-256: no two others agree in these, by chance or by design.
type duplicateFinder struct {
	seen     *marks // hash and place of each row
	most     int    // marks that are held in memory
	identity []byte
}

func newDuplicateFinder(most int) *duplicateFinder {
	return &duplicateFinder{seen: &marks{most: most}, most: most}
}

func (f *duplicateFinder) add(r Record, row tasks.Row) error {
	f.identity = row.AppendIdentity(f.identity[:0])
	if len(f.identity) == 0 {
		return nil
	}
	sum := sha256.Sum256(f.identity)
	m := mark(sum[:])
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

// each calls take with each duplicate, in their order, after all rows were added.
func (f *duplicateFinder) each(take func(repeated) error) (err error) {
	pairs := &marks{most: f.most} // places of a duplicate and of the row that it repeats
	defer func() { err = errors.Join(err, pairs.close()) }()
	var first mark
	for m, err := range f.seen.sorted() {
		if err != nil {
			return err
		}
		if [16]byte(m[:16]) != [16]byte(first[:16]) {
			first = m
			continue
		}
		var pair mark
		copy(pair[:], m[16:])
		copy(pair[8:], first[16:])
		if err := pairs.add(pair); err != nil {
			return err
		}
	}
	if err := f.seen.close(); err != nil {
		return err
	}
	for pair, err := range pairs.sorted() {
		var r repeated
		r.item, r.line = placeAt(pair[:])
		r.same, r.sameLine = placeAt(pair[8:])
		if err == nil {
			err = take(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeated is a row that asks for the same as one before it, with the lines in which both
// begin.
type repeated struct {
	item, same     int64
	line, sameLine int
}

func (r repeated) fate() fate {
	return fate{tasks.Unchanged, fmt.Sprintf("the same as row %d (line %d)", r.same, r.sameLine)}
}
