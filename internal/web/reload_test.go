//go:build unix

package web_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"orgops/internal/web"
)

// TestFilesAreReadAgainAfterAFault checks that a change which could not be read once, such as in
// a moment without file descriptors, is in force once it can be: of keys, certificates and all
// others.
func TestFilesAreReadAgainAfterAFault(t *testing.T) {
	file, now := accessFile(t, "former"), time.Now()
	var fault error
	read, err := web.Read(func() (string, error) {
		if fault != nil {
			return "", fault
		}
		text, err := os.ReadFile(file)
		return string(text), err
	}, quiet, func() time.Time { return now }, file)
	if err != nil {
		t.Fatal(err)
	}
	want := func(value string) {
		t.Helper()
		now = now.Add(time.Hour)
		if got := read.Get(); got != value {
			t.Errorf("value %q, want %q", got, value)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("former")
	write("second one")
	fault = errors.New("input/output error")
	want("former")
	want("former")
	fault = nil
	want("second one")

	write("the third one")
	fault = &web.WithoutValue{Err: errors.New("too many open files")}
	want("")
	want("")
	fault = nil
	want("the third one")
}

// TestAccessAfterAFault checks that users get in again once an access file that could not be read
// after a change can be, without another change.
func TestAccessAfterAFault(t *testing.T) {
	entry := func(letter string) string {
		return "- {name: " + letter + ", sha256: " + hashOf(tokenOf(letter)) + ", tenants: ['*'], role: reader}\n"
	}
	file, now := accessFile(t, entry("a")), time.Now()
	access, err := web.ReadAccess(file, quiet, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(entry("a")+entry("b")), 0o600); err != nil {
		t.Fatal(err)
	}
	fewFiles(t, func() {
		now = now.Add(time.Hour)
		if _, known := access.User(tokenOf("a")); known {
			t.Skip("the file was read although no more files may be open")
		}
	})
	now = now.Add(time.Hour)
	for _, letter := range []string{"a", "b"} {
		if _, known := access.User(tokenOf(letter)); !known {
			t.Errorf("%s does not get in although the file can be read", letter)
		}
	}
}
