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

// open opens a file, or the row one that the arguments name. Reading it ends with ctx.
func (t *tool) open(ctx context.Context, name string, one []byte) (*rowsFile, error) {
	if one != nil {
		if name != "" {
			return nil, cli.Usage(errors.New("name either a file, or a single domain by --org and --domain"))
		}
		return &rowsFile{Reader: bytes.NewReader(one), name: "arguments", end: func() {}}, nil
	}
	if name == "" && cli.IsTerminal(t.Stdin) {
		return nil, cli.Usage(errors.New("no rows: name a file, or - to type them in"))
	}
	if name == "" || name == "-" {
		rows := &rowsFile{name: "stdin"}
		rows.Reader, rows.end = endingReader(ctx, t.Stdin)
		return rows, nil
	}
	return openFile(ctx, name)
}

func openFile(ctx context.Context, name string) (*rowsFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cli.Usage(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, cli.Usage(err)
	}
	rows := &rowsFile{name: name, file: f}
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
