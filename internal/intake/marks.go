package intake

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// mark is what is kept of a row to find its like; marks sort by their bytes.
type mark [24]byte

// mostMarks is how many marks are held in memory: 6 MB. Beyond, they are
// sorted into a temporary file.
const mostMarks = 1 << 18

// manyMarks is how many there are where all that can be held are likely to come.
const manyMarks = 1 << 12

// marks sorts any number of marks within bounded memory.
type marks struct {
	most    int
	held    []mark
	file    *os.File // sorted stretches, one after the other; nil: all are held
	removed bool     // the file has no name any more
	lengths []int64  // of the stretches, in marks
}

func newMarks(most int) *marks { return &marks{most: most} }

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

func compareMarks(a, b mark) int { return bytes.Compare(a[:], b[:]) }

// spill moves what is held to the file.
func (m *marks) spill() error {
	if m.file == nil {
		file, err := os.CreateTemp("", "orgops-rows-*")
		if err != nil {
			return err
		}
		// Where an open file can be removed, it is gone even after a kill -9.
		m.file, m.removed = file, os.Remove(file.Name()) == nil
	}
	slices.SortFunc(m.held, compareMarks)
	w := bufio.NewWriterSize(m.file, 64<<10)
	for i := range m.held {
		if _, err := w.Write(m.held[i][:]); err != nil {
			return err
		}
	}
	m.lengths = append(m.lengths, int64(len(m.held)))
	m.held = m.held[:0]
	return w.Flush()
}

// sorted gives all marks in their order, and may be asked for again. After it
// none is added.
func (m *marks) sorted() iter.Seq2[mark, error] {
	return func(yield func(mark, error) bool) {
		if m.file == nil {
			slices.SortFunc(m.held, compareMarks)
			for _, one := range m.held {
				if !yield(one, nil) {
					return
				}
			}
			return
		}
		if err := m.merge(func(one mark) bool { return yield(one, nil) }); err != nil {
			yield(mark{}, fmt.Errorf("sort rows in a temporary file: %w", err))
		}
	}
}

// merge reads the stretches side by side.
func (m *marks) merge(yield func(mark) bool) error {
	if len(m.held) > 0 {
		if err := m.spill(); err != nil {
			return err
		}
	}
	m.held = nil
	var open stretches
	at := int64(0)
	for _, length := range m.lengths {
		size := length * int64(len(mark{}))
		s := &stretch{in: bufio.NewReaderSize(io.NewSectionReader(m.file, at, size), 64<<10)}
		at += size
		if err := s.next(); err != nil {
			return err
		}
		open = append(open, s)
	}
	heap.Init(&open)
	for len(open) > 0 {
		if !yield(open[0].first) {
			return nil
		}
		switch err := open[0].next(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&open)
		case err != nil:
			return err
		default:
			heap.Fix(&open, 0)
		}
	}
	return nil
}

// close gives the memory and the file back; of nil it is nothing.
func (m *marks) close() error {
	if m == nil || m.file == nil {
		return nil
	}
	err := m.file.Close()
	if !m.removed {
		err = errors.Join(err, os.Remove(m.file.Name()))
	}
	m.file, m.held, m.lengths = nil, nil, nil
	return err
}

// stretch is a part of the file that is sorted.
type stretch struct {
	in    *bufio.Reader
	first mark
}

// next reads the next mark into first; at the end the error is io.EOF.
func (s *stretch) next() error {
	_, err := io.ReadFull(s.in, s.first[:])
	return err
}

// stretches is a heap, the one with the least first mark on top.
type stretches []*stretch

func (s stretches) Len() int           { return len(s) }
func (s stretches) Less(i, j int) bool { return compareMarks(s[i].first, s[j].first) < 0 }
func (s stretches) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *stretches) Push(x any)        { *s = append(*s, x.(*stretch)) }
func (s *stretches) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
