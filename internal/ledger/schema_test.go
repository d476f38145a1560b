package ledger_test

import (
	"errors"
	"testing"

	"orgops/internal/ledger"
)

func TestSchema(t *testing.T) {
	tests := []struct {
		name, stored string
		want         string // of the error; empty: no error
		after        string // the schema after CheckSchema
	}{
		{"empty", "", "", "4"},
		{"this version", "4", "", "4"},
		{
			"older version", "1",
			"redis holds data of version 1, which this orgops cannot read: let its runs end with the older orgops, stop that, and start this one on an empty Redis", "1",
		},
		{"newer version", "5", "redis holds runs of version 5, this orgops knows versions up to 4: use a newer orgops", "5"},
		{"no number", "what\n", `redis key orgops:schema holds "what\n", which is no version: is this Redis orgops's own?`,
			"what\n"},
		{"no version", "0", `redis key orgops:schema holds "0", which is no version: is this Redis orgops's own?`, "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			stored := func() string { return w.rdb.Get(t.Context(), "orgops:schema").Val() }
			if tt.stored != "" {
				w.rdb.Set(t.Context(), "orgops:schema", tt.stored, 0)
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

// TestSchemaIsNotRead has a Redis that cannot be read: the error is not a SchemaError.
func TestSchemaIsNotRead(t *testing.T) {
	w := newWorker(t)
	w.rdb.HSet(t.Context(), "orgops:schema", "a", "b")
	for name, check := range map[string]error{"ReadSchema": w.ReadSchema(t.Context()),
		"CheckSchema": w.CheckSchema(t.Context())} {
		var schema *ledger.SchemaError
		if check == nil || errors.As(check, &schema) {
			t.Errorf("%s: %v", name, check)
		}
	}
}
