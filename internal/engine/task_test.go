package engine_test

import (
	"encoding/json"
	"errors"
	"testing"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// TestTaskContent checks that the payload shows a readable row, and that a damaged row is
// refused.
func TestTaskContent(t *testing.T) {
	run := ledger.Run{ID: "a", Kind: "domain:verify"}
	seg := ledger.Segment{Tenant: tenant, Run: "a", Incarnation: "0123456789abcdef"}
	task := engine.NewTask(run, seg, ledger.NewToken(),
		ledger.ReleasedRow{Row: 0, Content: []byte(`{"verification_txt":"t"}`)},
		ledger.ReleasedRow{Row: 1, Content: []byte("!{\xff")})
	payload, err := task.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Rows []struct {
			Content json.RawMessage `json:"content"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(payload, &shown); err != nil || string(shown.Rows[0].Content) != `{"verification_txt":"t"}` {
		t.Errorf("%s, %v", payload, err)
	}
	read, err := engine.ParseTask(tenant, payload)
	if err != nil {
		t.Fatal(err)
	}
	var row struct {
		TXT string `json:"verification_txt"`
	}
	if err := engine.Decode(read.Rows[0].Content, &row); err != nil || row.TXT != "t" {
		t.Errorf("%+v, %v", row, err)
	}
	if err := engine.Decode(read.Rows[1].Content, &row); engine.Decide(err).Outcome != ledger.InvalidRow {
		t.Errorf("a damaged row: %v", err)
	}
}

func TestDecode(t *testing.T) {
	for content, want := range map[string]string{
		`{"id":"a"}`:             "",
		` {"id":"a"} ` + "\n":    "",
		`{"id":"a","new":1}`:     "unknown",
		`{"id":"a"}}`:            "invalid",
		`{"id":"a"} {"id":"b"}`:  "invalid",
		`{"id":1,"new":1}`:       "invalid",
		`{"id":"a"`:              "invalid",
		`{"new":1,"id":"a"} "x"`: "invalid",
	} {
		var row struct {
			ID string `json:"id"`
		}
		err := engine.Decode([]byte(content), &row)
		got := ""
		var unknown *engine.UnknownError
		switch {
		case errors.As(err, &unknown):
			got = "unknown"
		case err != nil:
			got = "invalid"
		}
		if got != want || want != "invalid" && row.ID != "a" {
			t.Errorf("%s: %q, %v, id %q; want %q", content, got, err, row.ID, want)
		}
	}
}
