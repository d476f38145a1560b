package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

func TestSchema(t *testing.T) {
	tests := []struct {
		name, stored string
		runs         []string // of the former version
		want         string   // of the error; empty: no error
		after        string   // the schema after CheckSchema
	}{
		{"empty", "", nil, "", "2"},
		{"this version", "2", nil, "", "2"},
		{"this version, runs of before", "2", []string{"job"}, "", "2"},
		{"former version without runs", "1", nil, "", "2"},
		{"former version with runs", "1", []string{"old", "new"}, `redis holds runs of version 1, which this orgops cannot read (number: 2, oldest: "old"): with the older orgops list them (enqueue runs list), let them end or cancel them, and delete each (enqueue runs delete), then start this one again`, "1"},
		{"newer version", "3", nil, "redis holds runs of version 3, this orgops knows versions up to 2: use a newer orgops", "3"},
		{"no number", "what\n", nil, `redis key orgops:schema holds "what\n", which is no version: is this Redis orgops's own?`, "what\n"},
		{"no version", "0", nil, `redis key orgops:schema holds "0", which is no version: is this Redis orgops's own?`, "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			stored := func() string { return w.rdb.Get(t.Context(), "orgops:schema").Val() }
			if tt.stored != "" {
				w.rdb.Set(t.Context(), "orgops:schema", tt.stored, 0)
			}
			for i, run := range tt.runs {
				w.rdb.ZAdd(t.Context(), "orgops:v1:runs", redis.Z{Score: float64(i), Member: run})
			}
			check := func(name string, err error, after string) {
				t.Helper()
				if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
					t.Errorf("%s: %v, want %q", name, err, tt.want)
				}
				var schema *ledger.SchemaError
				if err != nil && !errors.As(err, &schema) {
					t.Errorf("%s: %T, want a SchemaError", name, err)
				}
				if got := stored(); got != after {
					t.Errorf("%s left %q, want %q", name, got, after)
				}
			}
			check("ReadSchema", w.ReadSchema(t.Context()), tt.stored)
			check("CheckSchema", w.CheckSchema(t.Context()), tt.after)
			check("CheckSchema again", w.CheckSchema(t.Context()), tt.after)
		})
	}
}

// TestTakeOverKeepsTheStateOfDomains has a Redis of the former version in which only sweeps
// have stored something.
func TestTakeOverKeepsTheStateOfDomains(t *testing.T) {
	w := newWorker(t)
	const domains = "orgops:v1:{watch:acme}:domains"
	w.rdb.Set(t.Context(), "orgops:schema", "1", 0)
	w.rdb.HSet(t.Context(), domains, "dom_1", "{}")
	if err := w.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.rdb.HGet(t.Context(), domains, "dom_1").Val(); got != "{}" {
		t.Errorf("a domain's state is %q", got)
	}
}

// TestTakeOverReplacesNothingElse has another process store a newer version between the two
// steps of a takeover.
func TestTakeOverReplacesNothingElse(t *testing.T) {
	w := newWorker(t)
	w.rdb.Set(t.Context(), "orgops:schema", "1", 0)
	// Before the third command, after the version and the index were read.
	i := &interruption{after: 2, do: func() { w.rdb.Set(t.Context(), "orgops:schema", "3", 0) }}
	interrupted := redistest.New(t)
	interrupted.AddHook(i)
	if err := ledger.New(interrupted).CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "use a newer orgops") {
		t.Errorf("got %v", err)
	}
	if got := w.rdb.Get(t.Context(), "orgops:schema").Val(); got != "3" {
		t.Errorf("the version is %q", got)
	}
}

// TestSchemaIsNotRead has a Redis that cannot be read: the error is not a SchemaError.
func TestSchemaIsNotRead(t *testing.T) {
	w := newWorker(t)
	w.rdb.HSet(t.Context(), "orgops:schema", "a", "b")
	for name, check := range map[string]error{"ReadSchema": w.ReadSchema(t.Context()), "CheckSchema": w.CheckSchema(t.Context())} {
		var schema *ledger.SchemaError
		if check == nil || errors.As(check, &schema) {
			t.Errorf("%s: %v", name, check)
		}
	}
}
