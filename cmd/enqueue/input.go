package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/tasks"
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

// open opens the rows of an order. Reading them ends with ctx.
func (t *tool) open(ctx context.Context, o order) (*rowsFile, error) {
	if o.one != nil {
		if o.File != "" {
			return nil, cli.Usage(errors.New("name either a file, or a single domain by --org and --domain"))
		}
		return &rowsFile{Reader: bytes.NewReader(o.one), name: "arguments", end: func() {}}, nil
	}
	if o.File == "" && cli.IsTerminal(t.Stdin) {
		return nil, cli.Usage(errors.New("no rows: name a file, or - to type them in"))
	}
	if o.File == "" || o.File == "-" {
		rows := &rowsFile{name: "stdin"}
		rows.Reader, rows.end = endingReader(ctx, t.Stdin)
		return rows, nil
	}
	return openFile(ctx, o.File)
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

// input returns the rows as the intake reads them.
func (f *rowsFile) input(o order) (intake.Input, error) {
	kind, ok := tasks.KindOf(o.kind)
	if !ok {
		return intake.Input{}, fmt.Errorf("kind of rows: unknown %q", o.kind)
	}
	return intake.Input{Name: f.name, Rows: f, Kind: kind, Defaults: o.defaults, Ignore: o.IgnoreColumns, SkipInvalid: o.SkipInvalid}, nil
}
