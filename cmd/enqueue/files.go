package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"orgops/internal/cli"
)

// rowsFlags are the flags of every command that reads rows.
type rowsFlags struct {
	IgnoreColumns []string `noenv:"true" placeholder:"A,B" help:"Ignore these columns or JSON members."`
}

// rowsFile is an input of rows, read once: a file, stdin, a pipe, or the row that the
// arguments name.
type rowsFile struct {
	io.Reader
	name string   // for errors
	file *os.File // nil: the rows come from no file
	end  func()   // ends the reading
	// regular reports whether the file is a regular one, not a pipe.
	regular bool
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
	rows := &rowsFile{name: path, file: f, regular: info.Mode().IsRegular()}
	rows.Reader, rows.end = endingReader(ctx, f)
	return rows, nil
}

// rejectedFile is the file of bad rows. Under its name it appears whole, or not at all.
type rejectedFile struct {
	*os.File
	name string // empty: not a regular file, which is written directly
}

func createRejected(name string, rows *rowsFile) (*rejectedFile, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && rows.is(info):
		return nil, cli.Usage(fmt.Errorf("rejected: %s is the file with the rows: name another one", name))
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("rejected: %w", err))
		}
		return &rejectedFile{File: f}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("rejected: %w", err))
	}
	return &rejectedFile{File: f, name: name}, nil
}

// end renames the file to its name, unless err says that it is incomplete.
func (f *rejectedFile) end(err error) error {
	closed := f.Close()
	switch {
	case f.name == "":
		return errors.Join(err, closed)
	case err == nil && closed == nil:
		err = os.Rename(f.Name(), f.name)
	default:
		err = errors.Join(err, closed)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (f *rowsFile) is(info os.FileInfo) bool {
	if f.file == nil {
		return false
	}
	own, err := f.file.Stat()
	return err == nil && os.SameFile(own, info)
}
