package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"orgops/internal/cli"
)

// rejectedFile is where bad rows go. Under its name the file appears whole, or
// not at all.
type rejectedFile struct {
	*os.File
	name string // empty: it is written to where it stands, since it is no file that could be replaced
}

// createRejected opens the file that is to hold the bad rows of an input.
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

// end puts the file in its place if the bad rows are all in it.
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
		_ = os.Remove(f.Name()) // there is nothing in it that anybody was told of
	}
	return err
}

// is says whether info is that of the file that the rows come from.
func (f *rowsFile) is(info os.FileInfo) bool {
	if f.file == nil {
		return false
	}
	own, err := f.file.Stat()
	return err == nil && os.SameFile(own, info)
}
