package tasks_test

import (
	"strings"
	"testing"

	"orgops/tasks"
)

// TestRowIDs holds the characters of an id (specification: those that are safe
// in a path), one by one.
func TestRowIDs(t *testing.T) {
	k, _ := tasks.KindOf(tasks.TypeRemove)
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_|-"
	for c := range rune(300) {
		_, err := k.Parse([]string{"o", "x" + string(c), ""}, tasks.Defaults{})
		if (err == nil) != strings.ContainsRune(allowed, c) {
			t.Errorf("%q: %v", c, err)
		}
	}
}
