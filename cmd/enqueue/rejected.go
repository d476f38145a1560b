package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"orgops/internal/cli"
)

// rejectedFile is the file of bad rows. Under its name it appears whole, or not at all.
type rejectedFile struct {
	*os.File
	name string // empty: not a regular file, which is written directly
}

// createRejected opens the file for the bad rows of an input.
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

// is reports whether info is that of the file of the rows.
func (f *rowsFile) is(info os.FileInfo) bool {
	if f.file == nil {
		return false
	}
	own, err := f.file.Stat()
	return err == nil && os.SameFile(own, info)
}
