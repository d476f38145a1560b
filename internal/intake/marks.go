package intake

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// mark is what is kept of a row to find its like; marks sort by their bytes.
type mark [24]byte

func (m mark) compare(other mark) int { return bytes.Compare(m[:], other[:]) }

// mostMarks is how many marks are held in memory: 6 MB. Beyond, they are
// sorted into a temporary file.
const mostMarks = 1 << 18

// manyMarks is how many there are where all that can be held are likely to come.
const manyMarks = 1 << 12

// marks sorts any number of marks within bounded memory.
type marks struct {
	most  int
	held  []mark
	file  *os.File // nil: all are held
	sizes []int64  // in bytes, of the sorted parts of the file
}

func (m *marks) add(one mark) error {
	if len(m.held) == m.most {
		if err := m.spill(); err != nil {
			return fmt.Errorf("sort rows in a temporary file: %w", err)
		}
	}
	if len(m.held) == cap(m.held) && len(m.held) >= manyMarks {
		m.held = slices.Grow(m.held, m.most-len(m.held)) // once, not in steps that leave as much behind
	}
	m.held = append(m.held, one)
	return nil
}

// spill moves the marks that are held to the file.
func (m *marks) spill() error {
	if m.file == nil {
		file, err := os.CreateTemp("", "orgops-rows-*")
		if err != nil {
			return err
		}
		m.file = file
		if err := os.Remove(file.Name()); err != nil { // so that it is gone even after a kill -9
			return err
		}
	}
	slices.SortFunc(m.held, mark.compare)
	w := bufio.NewWriterSize(m.file, 64<<10)
	for _, one := range m.held {
		if _, err := w.Write(one[:]); err != nil {
			return err
		}
	}
	m.sizes = append(m.sizes, int64(len(m.held)*len(mark{})))
	m.held = m.held[:0]
	return w.Flush()
}

// sorted returns all marks in their order. After it none is added.
func (m *marks) sorted() iter.Seq2[mark, error] {
	return func(yield func(mark, error) bool) {
		if m.file != nil {
			if err := m.merge(yield); err != nil {
				yield(mark{}, fmt.Errorf("sort rows in a temporary file: %w", err))
			}
			return
		}
		slices.SortFunc(m.held, mark.compare)
		for _, one := range m.held {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// merge reads the parts of the file side by side.
func (m *marks) merge(yield func(mark, error) bool) error {
	if err := m.spill(); err != nil {
		return err
	}
	m.held = nil
	var parts []*part // by their first marks
	insert := func(p *part) error {
		switch _, err := io.ReadFull(p.in, p.first[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		at, _ := slices.BinarySearchFunc(parts, p, func(a, b *part) int { return a.first.compare(b.first) })
		parts = slices.Insert(parts, at, p)
		return nil
	}
	at := int64(0)
	for _, size := range m.sizes {
		in := io.NewSectionReader(m.file, at, size)
		if err := insert(&part{in: bufio.NewReaderSize(in, 64<<10)}); err != nil {
			return err
		}
		at += size
	}
	for len(parts) > 0 {
		least := parts[0]
		if !yield(least.first, nil) {
			return nil
		}
		parts = slices.Delete(parts, 0, 1)
		if err := insert(least); err != nil {
			return err
		}
	}
	return nil
}

// close frees the memory and the file. It may be called again.
func (m *marks) close() error {
	file := m.file
	m.file, m.held = nil, nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// part is a sorted part of the file, behind its first mark.
type part struct {
	in    *bufio.Reader
	first mark
}
