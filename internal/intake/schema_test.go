package intake_test

import (
	"encoding/json"
	"strings"
	"testing"

	"orgops/internal/intake"
	"orgops/tasks"
)

// TestCellsAsJSON: what is written in the short way is what encoding/json
// writes, of every byte.
func TestCellsAsJSON(t *testing.T) {
	cells := []string{"é", "a b", strings.Repeat("x", 300)}
	for c := byte(1); c < 128; c++ {
		cells = append(cells, string(rune(c))+"x")
	}
	for _, cell := range cells {
		want, err := json.Marshal(cell)
		if err != nil {
			t.Fatal(err)
		}
		text := "organization_id,client_id\n\"" + strings.ReplaceAll(cell, `"`, `""`) + "\",c\n"
		r, err := intake.Open("rows", strings.NewReader(text), intake.Schema{Columns: []tasks.Column{{Name: "organization_id"}, {Name: "client_id"}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Next()
		if err != nil || got.Err != nil {
			t.Fatal(err, got.Err)
		}
		if whole := `{"organization_id":` + string(want) + `,"client_id":"c"}`; string(got.Object) != whole {
			t.Errorf("%s, want %s", got.Object, whole)
		}
	}
}

// TestRowIDs holds the characters of an id (specification: those that are safe
// in a path), one by one.
func TestRowIDs(t *testing.T) {
	k, _ := tasks.KindOf(tasks.TypeRemove)
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_|-"
	for c := range rune(300) {
		id, err := json.Marshal("x" + string(c))
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Parse(json.RawMessage(`{"organization_id":"o","client_id":`+string(id)+`}`), tasks.Defaults{})
		if (err == nil) != strings.ContainsRune(allowed, c) {
			t.Errorf("%q: %v", c, err)
		}
	}
}
