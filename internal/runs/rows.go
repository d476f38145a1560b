package runs

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	// ChunkRows is how many rows are stored as one value: few enough to be read
	// for the sake of one row, many enough to compress well and to make a
	// million rows a thousand values.
	ChunkRows = 1000
	// maxChunk bounds a chunk's bytes before compression. Redis ends at 512 MB;
	// rows are at most 1 MiB each and rarely over 5 KB.
	maxChunk = 64 << 20
)

// StoreRows writes down the rows from number first on, as they came: at most
// [ChunkRows], beginning at a multiple of it, and fewer only at the end of the
// input. To store the same rows again is harmless, to store others in their
// place is a [MismatchError].
func (l *Ledger) StoreRows(ctx context.Context, run string, first int64, rows [][]byte) error {
	if err := checkID(run); err != nil {
		return err
	}
	if first < 0 || first%ChunkRows != 0 || len(rows) > ChunkRows || first+int64(len(rows)) > MaxRows {
		return fmt.Errorf("run %s: store %d rows from %d: want at most %d, from a multiple of that, below %d",
			run, len(rows), first, ChunkRows, int64(MaxRows))
	}
	if len(rows) == 0 {
		return nil
	}
	plain := join(rows)
	if len(plain) > maxChunk {
		return fmt.Errorf("run %s: rows %d to %d are %d bytes, at most %d fit: make the rows shorter",
			run, first, first+int64(len(rows))-1, len(plain), maxChunk)
	}
	packed, err := deflate(plain)
	if err == nil {
		sum := sha256.Sum256(plain)
		want := map[string]string{
			"total":   strconv.FormatInt(first+int64(len(rows)), 10),
			"content": fmt.Sprintf("rows %d to %d", first, first+int64(len(rows))-1),
		}
		_, _, err = l.do(ctx, storeScript, run, want, first, len(rows), sum[:], packed)
	}
	if err != nil {
		return fmt.Errorf("run %s: store %d rows from %d: %w", run, len(rows), first, err)
	}
	return nil
}

// Rows returns up to n stored rows from number first on, fewer only where the
// stored rows end, or [ErrNotFound].
func (l *Ledger) Rows(ctx context.Context, run string, first int64, n int) ([][]byte, error) {
	if err := checkID(run); err != nil {
		return nil, err
	}
	if first < 0 || n < 0 {
		return nil, fmt.Errorf("run %s: read %d rows from %d: want neither below 0", run, n, first)
	}
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return nil, err
	case found:
		return l.coreRowsFrom(ctx, core, first, n)
	}
	stored, err := l.extent(ctx, run, "stored")
	if err != nil {
		return nil, err
	}
	past := min(first+int64(n), stored)
	var out [][]byte
	for at := first; at < past; {
		start := at - at%ChunkRows
		rows, err := l.chunk(ctx, run, start)
		if err != nil {
			return nil, fmt.Errorf("run %s: read rows from %d: %w", run, start, err)
		}
		upTo := min(past-start, ChunkRows)
		if int64(len(rows)) < upTo {
			return nil, fmt.Errorf("run %s: row %d was never stored, though row %d was", run, start+int64(len(rows)), stored-1)
		}
		out = append(out, rows[at-start:upTo]...)
		at = start + upTo
	}
	return out, nil
}

// extent reads a number of the run, or ErrNotFound.
func (l *Ledger) extent(ctx context.Context, run, field string) (int64, error) {
	n, err := l.rdb.HGet(ctx, key(run, "run"), field).Int64()
	if errAbsent(err) {
		err = ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("run %s: read: %w", run, err)
	}
	return n, nil
}

// chunk returns the rows of the chunk that begins at start; none if it was
// never stored.
func (l *Ledger) chunk(ctx context.Context, run string, start int64) ([][]byte, error) {
	value, err := l.rdb.HGet(ctx, key(run, "rows"), strconv.FormatInt(start, 10)).Bytes()
	if errAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return unpack(value)
}

// unpack returns the rows of a chunk as it is stored.
func unpack(value []byte) ([][]byte, error) {
	if len(value) < sha256.Size {
		return nil, errors.New("stored chunk is cut short")
	}
	plain, err := inflate(value[sha256.Size:])
	if err != nil {
		return nil, fmt.Errorf("stored chunk: %w", err)
	}
	if sha256.Sum256(plain) != [sha256.Size]byte(value[:sha256.Size]) {
		return nil, errors.New("stored chunk is damaged: its checksum differs")
	}
	return split(plain)
}

// join puts each row behind its length, a varint: any byte may be in a row.
func join(rows [][]byte) []byte {
	var size int
	for _, row := range rows {
		size += len(row) + binary.MaxVarintLen32
	}
	plain := make([]byte, 0, size)
	for _, row := range rows {
		plain = binary.AppendUvarint(plain, uint64(len(row)))
		plain = append(plain, row...)
	}
	return plain
}

// split is its inverse.
func split(plain []byte) ([][]byte, error) {
	var rows [][]byte
	for len(plain) > 0 {
		length, n := binary.Uvarint(plain)
		if n <= 0 || length > uint64(len(plain)-n) {
			return nil, errors.New("stored chunk is cut short")
		}
		plain = plain[n:]
		rows = append(rows, plain[:length:length])
		plain = plain[length:]
	}
	return rows, nil
}

func deflate(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func inflate(packed []byte) ([]byte, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxChunk+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxChunk {
		return nil, fmt.Errorf("more than %d bytes", maxChunk)
	}
	return plain, nil
}
