package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"orgops/internal/cli"
)

// rowsFile is an input of rows, read once: a file, stdin, a pipe, or the row that the
// arguments name.
type rowsFile struct {
	io.Reader
	name string   // for errors
	file *os.File // nil: the rows come from no file
	end  func()   // ends the reading
}

func (f *rowsFile) close() {
	f.end()
	if f.file != nil {
		_ = f.file.Close()
	}
}

// open opens the file of a path, or the row one that the arguments name. Reading it ends with
// ctx.
func (t *tool) open(ctx context.Context, path string, one []byte) (*rowsFile, error) {
	switch {
	case one != nil:
		return &rowsFile{Reader: bytes.NewReader(one), name: "arguments", end: func() {}}, nil
	case path == "" && cli.IsTerminal(t.Stdin):
		return nil, cli.Usage(errors.New("no rows: name a file, or - to type them in"))
	case path == "" || path == "-":
		rows := &rowsFile{name: "stdin"}
		rows.Reader, rows.end = endingReader(ctx, t.Stdin)
		return rows, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Usage(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, cli.Usage(err)
	}
	rows := &rowsFile{name: path, file: f}
	rows.Reader, rows.end = endingReader(ctx, f)
	return rows, nil
}

// endingReader returns a reader that ends with ctx or by end, also while r waits for a pipe or
// a terminal, which cannot be interrupted: that read is abandoned.
func endingReader(ctx context.Context, r io.Reader) (reader io.Reader, end func()) {
	reads, writes := io.Pipe()
	go func() {
		_, err := io.Copy(writes, r)
		_ = writes.CloseWithError(err) // nil: io.EOF
	}()
	stop := context.AfterFunc(ctx, func() { _ = writes.CloseWithError(ctx.Err()) })
	return reads, func() {
		stop()
		_ = reads.Close()
	}
}
