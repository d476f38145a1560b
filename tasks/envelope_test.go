package tasks_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/tasks"
)

func TestReadEnvelope(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name, payload string
		want          tasks.Envelope
		rows          []int64
		bad           bool
	}{
		{name: "row", payload: `{"v":1,"tenant":"t","run":"r","item":7,"created_at":"2026-11-20T12:00:00Z"}`, want: tasks.Envelope{V: 1, Tenant: "t", Run: "r", Item: new(int64(7)), CreatedAt: at}, rows: []int64{7}},
		{name: "row 0", payload: `{"v":1,"run":"r","item":0}`, want: tasks.Envelope{V: 1, Tenant: "default", Run: "r", Item: new(int64(0))}, rows: []int64{0}},
		{name: "batch", payload: `{"v":1,"run":"r","items":[3,1]}`, want: tasks.Envelope{V: 1, Tenant: "default", Run: "r", Items: []int64{3, 1}}, rows: []int64{3, 1}},
		{name: "members of a newer version", payload: `{"v":9,"run":"r","item":1,"new":{"a":[1]},"organization_id":5}`, want: tasks.Envelope{V: 9, Tenant: "default", Run: "r", Item: new(int64(1))}, rows: []int64{1}},
		{name: "empty", payload: ``, bad: true},
		{name: "no JSON", payload: `{"v":`, bad: true},
		{name: "no object", payload: `[1]`, bad: true},
		{name: "null", payload: `null`, bad: true},
		{name: "no run", payload: `{"v":1,"item":1}`, bad: true},
		{name: "bad run", payload: `{"v":1,"run":"a}b","item":1}`, bad: true},
		{name: "no row", payload: `{"v":1,"run":"r"}`, bad: true},
		{name: "no rows", payload: `{"v":1,"run":"r","items":[]}`, bad: true},
		{name: "both", payload: `{"v":1,"run":"r","item":1,"items":[1]}`, bad: true},
		{name: "row below 0", payload: `{"v":1,"run":"r","item":-1}`, bad: true},
		{name: "rows below 0", payload: `{"v":1,"run":"r","items":[1,-1]}`, bad: true},
		{name: "row is a text", payload: `{"v":1,"run":"r","item":"1"}`, bad: true},
		{name: "row is broken", payload: `{"v":1,"run":"r","item":1.5}`, bad: true},
		{name: "bad time", payload: `{"v":1,"run":"r","item":1,"created_at":"yesterday"}`, bad: true},
		{name: "something follows", payload: `{"v":1,"run":"r","item":1} {}`, bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := tasks.ReadEnvelope([]byte(test.payload))
			if (err != nil) != test.bad {
				t.Fatalf("error %v, want one: %t", err, test.bad)
			}
			if test.bad {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.rows, got.Rows()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const envelope = `"v":1,"tenant":"default","run":"r","item":1,"created_at":"2026-11-20T12:00:00Z"`

// payloads are good ones, one of each kind.
var payloads = map[string]string{
	tasks.TypeVerify: `{` + envelope + `,"organization_id":"o","discovery_domain_id":"d","verification_host":"_x.a.example","verification_txt":"t","use_for_organization_discovery":true,"give_up_at":"2026-11-23T12:00:00Z"}`,
	tasks.TypeUpdate: `{` + envelope + `,"organization_id":"o","discovery_domain_id":"d","status":"pending","use_for_organization_discovery":false}`,
	tasks.TypeRemove: `{"v":1,"run":"r","items":[1,2],"created_at":"2026-11-20T12:00:00Z","organization_id":"o","clients":["a","b"]}`,
	tasks.TypeCreate: `{` + envelope + `,"template":` + template + `}`,
}

type validator interface{ Validate() error }

func payloadOf(typ string) validator {
	switch typ {
	case tasks.TypeVerify:
		return &tasks.VerifyPayload{}
	case tasks.TypeUpdate:
		return &tasks.UpdatePayload{}
	case tasks.TypeRemove:
		return &tasks.RemovePayload{}
	}
	return &tasks.CreatePayload{}
}

func readPayload(typ string, raw []byte) (validator, error) {
	p := payloadOf(typ)
	if err := tasks.DecodeStrict(raw, p); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

func TestPayloads(t *testing.T) {
	for typ, good := range payloads {
		t.Run(typ, func(t *testing.T) {
			if _, err := readPayload(typ, []byte(good)); err != nil {
				t.Fatalf("a good payload is refused: %v", err)
			}
			for name, bad := range map[string]string{
				"unknown member":    good[:len(good)-1] + `,"surprise":1}`,
				"something follows": good + `{}`,
				"no object":         `[]`,
				"empty object":      `{}`,
				"cut":               good[:len(good)-1],
			} {
				if _, err := readPayload(typ, []byte(bad)); err == nil {
					t.Errorf("%s: not refused", name)
				}
			}
		})
	}
}

func TestPayloadRules(t *testing.T) {
	with := func(typ, member string, value any) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(payloads[typ]), &m); err != nil {
			t.Fatal(err)
		}
		m[member] = value
		if value == nil {
			delete(m, member)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	many := make([]string, 101)
	items := make([]int, 101)
	for i := range many {
		many[i], items[i] = "c", i
	}
	for _, test := range []struct {
		name, typ, member string
		value             any
	}{
		{"organization missing", tasks.TypeVerify, "organization_id", nil},
		{"organization with a slash", tasks.TypeVerify, "organization_id", "a/b"},
		{"domain missing", tasks.TypeVerify, "discovery_domain_id", nil},
		{"domain that walks up", tasks.TypeVerify, "discovery_domain_id", "../x"},
		{"host with a space", tasks.TypeVerify, "verification_host", "a b.example"},
		{"host that is an address", tasks.TypeVerify, "verification_host", "127.0.0.1"},
		{"token too long", tasks.TypeVerify, "verification_txt", string(make([]byte, 4097))},
		{"no give_up_at", tasks.TypeVerify, "give_up_at", nil},
		{"organization missing", tasks.TypeUpdate, "organization_id", nil},
		{"unknown status", tasks.TypeUpdate, "status", "done"},
		{"organization missing", tasks.TypeRemove, "organization_id", nil},
		{"no clients", tasks.TypeRemove, "clients", []string{}},
		{"fewer clients than rows", tasks.TypeRemove, "clients", []string{"a"}},
		{"more clients than rows", tasks.TypeRemove, "clients", []string{"a", "b", "c"}},
		{"client with a slash", tasks.TypeRemove, "clients", []string{"a", "b/c"}},
		{"no template", tasks.TypeCreate, "template", nil},
		{"template with an unknown member", tasks.TypeCreate, "template", json.RawMessage(template[:len(template)-1] + `,"x":1}`)},
	} {
		t.Run(test.typ+" "+test.name, func(t *testing.T) {
			if _, err := readPayload(test.typ, []byte(with(test.typ, test.member, test.value))); err == nil {
				t.Error("not refused")
			}
		})
	}
	t.Run("update of nothing", func(t *testing.T) {
		if _, err := readPayload(tasks.TypeUpdate, []byte(`{`+envelope+`,"organization_id":"o","discovery_domain_id":"d"}`)); err == nil {
			t.Error("not refused")
		}
	})
	t.Run("101 clients", func(t *testing.T) {
		p := tasks.RemovePayload{OrganizationID: "o", Clients: many}
		for _, i := range items {
			p.Items = append(p.Items, int64(i))
		}
		if p.Validate() == nil {
			t.Error("not refused")
		}
	})
}

func FuzzReadEnvelope(f *testing.F) {
	for _, p := range payloads {
		f.Add([]byte(p))
	}
	f.Add([]byte(`{"v":1,"run":"r","items":[0,-1,9223372036854775807]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := tasks.ReadEnvelope(raw)
		if err != nil {
			return
		}
		if len(e.Rows()) == 0 || e.Tenant == "" || tasks.CheckRunID(e.Run) != nil {
			t.Errorf("%q is read as %+v", raw, e)
		}
		for _, item := range e.Rows() {
			if item < 0 {
				t.Errorf("%q has row %d", raw, item)
			}
		}
	})
}

func fuzzPayload(f *testing.F, typ string) {
	f.Helper()
	f.Add([]byte(payloads[typ]))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := readPayload(typ, raw)
		if err != nil {
			return
		}
		// What is read is written as something that reads the same.
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%q is read, and cannot be written: %v", raw, err)
		}
		q, err := readPayload(typ, again)
		if err != nil {
			t.Fatalf("%q is read, and written as %q, which is not: %v", raw, again, err)
		}
		final, err := json.Marshal(q)
		if err != nil || string(final) != string(again) {
			t.Errorf("written as %q, then as %q; %v", again, final, err)
		}
	})
}

func FuzzVerifyPayload(f *testing.F) { fuzzPayload(f, tasks.TypeVerify) }
func FuzzUpdatePayload(f *testing.F) { fuzzPayload(f, tasks.TypeUpdate) }
func FuzzRemovePayload(f *testing.F) { fuzzPayload(f, tasks.TypeRemove) }
func FuzzCreatePayload(f *testing.F) { fuzzPayload(f, tasks.TypeCreate) }
