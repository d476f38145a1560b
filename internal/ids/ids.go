// Package ids has the forms of the ids and names of orgops' own things. Those of the platform's are
// in package schema, and those of DNS in package dnsname.
package ids

import (
	"fmt"
	"strings"

	"orgops/internal/untrusted"
)

// CheckRun returns an error unless the text has the form of a run's id.
func CheckRun(id string) error {
	if !ConsistsOf(id, 64, upperCase+"_-") {
		return fmt.Errorf("run: want 1 to 64 letters, digits, _ or -, got %s", untrusted.Value(id))
	}
	return nil
}

// CheckTenant returns an error unless the text has the form of a tenant's name.
func CheckTenant(name string) error { return CheckName("tenant", name) }

// CheckName returns an error unless the text has the form of a name in a file of settings: that of
// a tenant, or of an endpoint of webhooks. Names of queues are made of both. field is that of the
// name, for the error.
func CheckName(field, name string) error {
	if !ConsistsOf(name, 32, "_-") || strings.ContainsRune("_-", rune(name[0])) {
		return fmt.Errorf("%s: want 1 to 32 of a-z, 0-9, _ or -, beginning with a letter or digit, got %s", field,
			untrusted.Value(name))
	}
	return nil
}

const upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// ConsistsOf reports whether a text has 1 to most bytes, each of a-z, 0-9 or the others. It is
// called several times for each task: a regular expression takes 80 µs of a row's time.
func ConsistsOf(text string, most int, others string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return len(text) > 0 && len(text) <= most
}
