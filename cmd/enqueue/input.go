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

// rowsFile is rows that can be read twice: a file, stdin or a pipe by way of a
// temporary file, or the row that the arguments name.
type rowsFile struct {
	name    string    // for errors
	once    io.Reader // what can be read only once; nil where again is there
	again   io.ReadSeeker
	closers []func()
}

func (f *rowsFile) close() {
	for _, c := range f.closers {
		c()
	}
}

// open opens what the order names. Nothing is read yet.
func (t *tool) open(o order) (*rowsFile, error) {
	if o.one != nil {
		if o.File != "" {
			return nil, cli.Usage(errors.New("name either a file, or a single domain by --org and --domain"))
		}
		return &rowsFile{name: "arguments", again: bytes.NewReader(o.one)}, nil
	}
	if o.File == "" && cli.IsTerminal(t.Stdin) {
		return nil, cli.Usage(errors.New("no rows: name a file, or - to type them in"))
	}
	if o.File == "" || o.File == "-" {
		return &rowsFile{name: "stdin", once: t.Stdin}, nil
	}
	return openFile(o.File)
}

func openFile(name string) (*rowsFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cli.Usage(err)
	}
	rows := &rowsFile{name: name, once: f, closers: []func(){func() { _ = f.Close() }}}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory: name a file", name)
	case info.Mode().IsRegular():
		rows.once, rows.again = nil, f
	}
	if err != nil {
		rows.close()
		return nil, cli.Usage(err)
	}
	return rows, nil
}

// spool copies what can be read only once to a temporary file.
func (f *rowsFile) spool(ctx context.Context) error {
	if f.once == nil {
		return nil
	}
	copied, err := f.copyOnce(ctx)
	if err != nil {
		return fmt.Errorf("keep a copy of %s: %w", f.name, err)
	}
	f.once, f.again = nil, copied
	return nil
}

func (f *rowsFile) copyOnce(ctx context.Context) (*os.File, error) {
	to, err := os.CreateTemp("", "orgops-enqueue-*")
	if err != nil {
		return nil, err
	}
	// Where an open file can be removed, it is gone even after a kill -9.
	early := os.Remove(to.Name()) == nil
	f.closers = append(f.closers, func() {
		_ = to.Close()
		if !early {
			_ = os.Remove(to.Name())
		}
	})
	// Reading a terminal or a pipe cannot be broken off; so the copying is left
	// behind when ctx ends, and soon with it the process.
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, f.once)
		copied <- err
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-copied:
		return to, err
	}
}

// input is what the rows are to be taken for. They can be read twice then.
func (f *rowsFile) input(ctx context.Context, o order) (intake.Input, error) {
	kind, ok := tasks.KindOf(o.kind)
	if !ok {
		return intake.Input{}, fmt.Errorf("kind of rows: unknown %q", o.kind)
	}
	if err := f.spool(ctx); err != nil {
		return intake.Input{}, err
	}
	return intake.Input{
		Name: f.name, Open: f.opener(ctx), Kind: kind, Defaults: o.defaults, Ignore: o.IgnoreColumns, SkipInvalid: o.SkipInvalid,
	}, nil
}

// opener returns what opens the rows from their beginning, for one reader at a
// time. Reading them ends with ctx.
func (f *rowsFile) opener(ctx context.Context) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		if _, err := f.again.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read %s again: %w", f.name, err)
		}
		return io.NopCloser(reader(func(p []byte) (int, error) {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			return f.again.Read(p)
		})), nil
	}
}

// reader is an [io.Reader] made of its method.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }
