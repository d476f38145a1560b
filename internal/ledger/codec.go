package ledger

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"
)

const (
	// chunkRows is the number of rows that are compressed together. Larger chunks are no
	// smaller per row, and to read one row a whole chunk is read.
	chunkRows = 128
	// chunkBytes is the size from which a chunk gets fewer rows, in bytes before
	// compression: reading one row of 5 KiB must not cost 640 KiB.
	chunkBytes = 64 << 10
	// maxChunk bounds the size of a chunk after decompression. The largest chunk has one
	// row of [MaxRow] bytes, or several of chunkBytes together.
	maxChunk = MaxRow + 64<<10
)

// castagnoli is the polynomial of a chunk's checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the number of rows of a segment and the digest of their content.
type Sum struct {
	Rows int
	// Digest is the first half of the SHA-256 of all rows, each after its length.
	Digest [16]byte
}

// sumBytes is the size of a sum as it is stored: two bytes for the rows, then the
// digest.
const sumBytes = 18

// stored returns the sum's stored form.
func (s Sum) stored() string {
	return string(append(binary.BigEndian.AppendUint16(nil, uint16(s.Rows)), s.Digest[:]...))
}

// parseSum is the inverse of stored.
func parseSum(stored string) (Sum, error) {
	if len(stored) != sumBytes {
		return Sum{}, fmt.Errorf("stored sum is %d bytes: want %d", len(stored), sumBytes)
	}
	s := Sum{Rows: int(binary.BigEndian.Uint16([]byte(stored)))}
	copy(s.Digest[:], stored[2:])
	return s, nil
}

// splitSums divides the sums of a run's segments as they are stored.
func splitSums(stored string) []string {
	sums := make([]string, len(stored)/sumBytes)
	for i := range sums {
		sums[i] = stored[i*sumBytes : (i+1)*sumBytes]
	}
	return sums
}

// packed is a segment's rows as they are stored.
type packed struct {
	sum    Sum
	per    int      // rows of a chunk
	chunks [][]byte // the last one may have fewer rows
}

// pack compresses the rows of a segment.
func pack(rows [][]byte) (packed, error) {
	if len(rows) == 0 || len(rows) > SegmentRows {
		return packed{}, fmt.Errorf("%d rows: want 1 to %d", len(rows), SegmentRows)
	}
	digest := sha256.New()
	var length [binary.MaxVarintLen64]byte
	for i, row := range rows {
		if len(row) > MaxRow {
			return packed{}, fmt.Errorf("row %d is %d bytes: want at most %d", i, len(row), MaxRow)
		}
		digest.Write(length[:binary.PutUvarint(length[:], uint64(len(row)))])
		digest.Write(row)
	}
	p := packed{sum: Sum{Rows: len(rows), Digest: [16]byte(digest.Sum(nil))}, per: rowsPerChunk(rows)}
	for first := 0; first < len(rows); first += p.per {
		chunk, err := packChunk(rows[first:min(first+p.per, len(rows))])
		if err != nil {
			return packed{}, err
		}
		p.chunks = append(p.chunks, chunk)
	}
	return p, nil
}

// rowsPerChunk returns the largest number of rows, at most chunkRows and a power of
// two, with which no chunk of several rows exceeds chunkBytes.
func rowsPerChunk(rows [][]byte) int {
	per := chunkRows
	for per > 1 && largestChunk(rows, per) > chunkBytes {
		per /= 2
	}
	return per
}

func largestChunk(rows [][]byte, per int) int {
	largest := 0
	size := 0
	for i, row := range rows {
		if i%per == 0 {
			size = 0
		}
		size += len(row) + binary.MaxVarintLen32
		largest = max(largest, size)
	}
	return largest
}

// compressors keeps writers, which take long to make.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, compression)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// compression is the level with which rows of two random ids take the fewest bytes in
// the least time.
const compression = flate.BestSpeed

// packChunk returns the checksum of the rows, each after its length, and then the same
// compressed.
func packChunk(rows [][]byte) ([]byte, error) {
	size := 0
	for _, row := range rows {
		size += binary.MaxVarintLen32 + len(row)
	}
	plain := make([]byte, 0, size)
	for _, row := range rows {
		plain = binary.AppendUvarint(plain, uint64(len(row)))
		plain = append(plain, row...)
	}
	out := bytes.NewBuffer(binary.BigEndian.AppendUint32(nil, crc32.Checksum(plain, castagnoli)))
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(out)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compress rows: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress rows: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil // without the spare capacity
}

// unpackChunk returns the rows of a stored chunk.
func unpackChunk(stored []byte) ([][]byte, error) {
	if len(stored) < crc32.Size {
		return nil, errors.New("stored rows are cut short")
	}
	r := flate.NewReader(bytes.NewReader(stored[crc32.Size:]))
	plain, err := io.ReadAll(io.LimitReader(r, maxChunk+1))
	if err != nil {
		return nil, fmt.Errorf("stored rows: %w", err)
	}
	if len(plain) > maxChunk {
		return nil, fmt.Errorf("stored rows exceed %d bytes", maxChunk)
	}
	if crc32.Checksum(plain, castagnoli) != binary.BigEndian.Uint32(stored) {
		return nil, errors.New("stored rows are damaged: their checksum differs")
	}
	return splitRows(plain)
}

// splitRows returns rows that each come after their length.
func splitRows(plain []byte) ([][]byte, error) {
	var rows [][]byte
	for len(plain) > 0 {
		size, n := binary.Uvarint(plain)
		if n <= 0 || size > uint64(len(plain)-n) {
			return nil, errors.New("stored rows are damaged: a length is beyond their end")
		}
		end := n + int(size)
		rows = append(rows, plain[n:end:end])
		plain = plain[end:]
	}
	return rows, nil
}

// contents is the content of some rows.
type contents struct {
	per    int // rows of a chunk
	chunks map[int]chunk
}

type chunk struct {
	rows [][]byte
	err  error
}

// parseContents reads a flat list of chunk numbers and chunks.
func parseContents(per int, flat answer) (contents, error) {
	if per < 1 {
		return contents{}, fmt.Errorf("stored rows of a chunk: %d", per)
	}
	c := contents{per: per, chunks: map[int]chunk{}}
	for ; len(flat) >= 2; flat = flat[2:] {
		number, err := strconv.Atoi(flat.text(0))
		if err != nil {
			return contents{}, fmt.Errorf("number of a chunk: %w", err)
		}
		rows, err := unpackChunk([]byte(flat.text(1)))
		c.chunks[number] = chunk{rows, err}
	}
	return c, nil
}

// row returns the content of a row.
func (c contents) row(row Row) ([]byte, error) {
	of := c.chunks[int(row)/c.per]
	switch place := int(row) % c.per; {
	case of.err != nil:
		return nil, fmt.Errorf("row %d: %w", row, of.err)
	case place >= len(of.rows):
		return nil, fmt.Errorf("row %d is not stored", row)
	default:
		return of.rows[place], nil
	}
}
