package watch_test

import (
	"slices"
	"strings"
	"testing"

	"orgops/internal/redistest"
	"orgops/internal/watch"
)

func TestRememberReplacesOnlyWhatIsKnown(t *testing.T) {
	s := watch.New(redistest.New(t), "default")
	remember := func(former, value string, want bool) {
		t.Helper()
		if ok, err := s.Remember(t.Context(), "ord_1", []byte(former), []byte(value), true, 7, "present"); err != nil || ok != want {
			t.Errorf("%q by %q: %v, %v, want %v", former, value, ok, err, want)
		}
	}
	remember("x", "a", false)
	remember("", "a", true)
	remember("", "b", false)
	remember("a", "b", true)
	if value, err := s.Memory(t.Context(), "ord_1"); err != nil || string(value) != "b" {
		t.Errorf("remembered %q, %v", value, err)
	}
	if tally, err := s.Tally(t.Context(), 7); err != nil || tally["present"] != 2 {
		t.Errorf("tally %v, %v: want what was written, and nothing else", tally, err)
	}
	remember("b", "", true)
	if value, err := s.Memory(t.Context(), "ord_1"); err != nil || value != nil {
		t.Errorf("remembered %q, %v after it was forgotten", value, err)
	}
	for domain, err := range s.Attended(t.Context()) {
		t.Errorf("%s is attended (%v) and forgotten", domain, err)
	}
}

func TestAttended(t *testing.T) {
	rdb := redistest.New(t)
	s, other := watch.New(rdb, "default"), watch.New(rdb, "other")
	for _, d := range []struct {
		id     string
		attend bool
	}{{"a", true}, {"b", false}, {"c", true}, {"d", true}} {
		if ok, err := s.Remember(t.Context(), d.id, nil, []byte("1"), d.attend, 1); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	if ok, err := s.Remember(t.Context(), "d", []byte("1"), []byte("2"), false, 1); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := other.Remember(t.Context(), "e", nil, []byte("1"), true, 1); err != nil || !ok {
		t.Fatal(ok, err)
	}
	var got []string
	for domain, err := range s.Attended(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, domain)
	}
	slices.Sort(got)
	if strings.Join(got, " ") != "a c" {
		t.Errorf("attended %v, want a and c", got)
	}
}

func TestState(t *testing.T) {
	s := watch.New(redistest.New(t), "default")
	for _, step := range []struct {
		former, value string
		want          bool
	}{{"x", "a", false}, {"", "a", true}, {"", "b", false}, {"a", "b", true}, {"b", "", true}, {"", "c", true}} {
		if ok, err := s.SetState(t.Context(), "breaker", []byte(step.former), []byte(step.value)); err != nil || ok != step.want {
			t.Errorf("%q by %q: %v, %v", step.former, step.value, ok, err)
		}
	}
	if value, err := s.State(t.Context(), "breaker"); err != nil || string(value) != "c" {
		t.Errorf("state %q, %v", value, err)
	}
	if value, err := s.State(t.Context(), "judged"); err != nil || value != nil {
		t.Errorf("state %q, %v, want none", value, err)
	}
	if _, err := s.State(t.Context(), "no such:name"); err == nil {
		t.Error("a name that is none was taken")
	}
}
