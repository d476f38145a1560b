package index_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks"
)

func TestEntry(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	whole := index.Entry{
		Domain: discovery.Domain{
			OrganizationID: "org_2iEQW5K6I4KggeE5", ID: "ord_1", Name: "acme.example",
			Host: "_ss-verification.org_2iEQW5K6I4KggeE5.acme.example", TXT: "4df023cd7bbe09c0e2f95901123024fe",
			Status: schema.StatusPending,
		},
		Read: at.Add(-time.Hour), State: "absent", At: at, Next: at.Add(time.Minute),
		Run: "signup-4711", Segment: 3, Row: ledger.SegmentRows - 1,
	}
	for name, change := range map[string]func(*index.Entry){
		"as the service has them": func(*index.Entry) {},
		"verified": func(k *index.Entry) {
			k.Status, k.State, k.Next = schema.StatusVerified, "present", time.Time{}
		},
		"without a check":        func(k *index.Entry) { k.State = "" },
		"unknown":                func(k *index.Entry) { k.State = "unknown" },
		"a token as text":        func(k *index.Entry) { k.TXT = `name=Value "x"` },
		"a token in capitals":    func(k *index.Entry) { k.TXT = strings.ToUpper(k.TXT) },
		"a run with a time":      func(k *index.Entry) { k.Run = "20261127-030000-abcd" },
		"a run named by a time":  func(k *index.Entry) { k.Run = "20261127-030000-" },
		"a run of no time":       func(k *index.Entry) { k.Run = "20261327-030000-abcd" },
		"a run of long ago":      func(k *index.Entry) { k.Run = "18271127-030000-abcd" },
		"a run without an id":    func(k *index.Entry) { k.Run = "" },
		"a token of odd length":  func(k *index.Entry) { k.TXT = "abc" },
		"a host in capitals":     func(k *index.Entry) { k.Host = "_SS.Acme.Example" },
		"a host of another name": func(k *index.Entry) { k.Host = "_v.other.example." },
		"the longest token":      func(k *index.Entry) { k.TXT = strings.Repeat("x", 128) },
		"the longest of each": func(k *index.Entry) {
			k.OrganizationID, k.TXT = strings.Repeat("o", 128), strings.Repeat("x", 128)
			k.Name = strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61)
			k.Host = "_v." + k.Name[3:]
			k.Run, k.Segment, k.Row = ledger.RunID(strings.Repeat("r", 64)), 100_000_000/ledger.SegmentRows, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := whole
			change(&want)
			s := want.Subject()
			if s == nil || s.Name != want.Name || s.ID != want.ID {
				t.Fatalf("subject %+v of %+v", s, want)
			}
			if got, err := index.Read(*s); err != nil || got != want || len(s.About) > 1024 {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		})
	}
	t.Run("a token that is too long is left out", func(t *testing.T) {
		k := whole
		k.TXT = strings.Repeat("x", 129)
		got, err := index.Read(*k.Subject())
		if k.TXT = ""; err != nil || got != k {
			t.Errorf("%+v, %v, want %+v", got, err, k)
		}
	})
	t.Run("names", func(t *testing.T) {
		for _, none := range []string{"", ".", "a b.example", "a\x01.example", strings.Repeat("a", 254)} {
			k := whole
			if k.Name = none; k.Subject() != nil {
				t.Errorf("%q is indexed", none)
			}
		}
	})
	t.Run("damaged", func(t *testing.T) {
		s := whole.Subject()
		for n := range 18 + len(whole.OrganizationID) + len(whole.Run) {
			damaged := *s
			damaged.About = s.About[:n]
			if got, err := index.Read(damaged); err == nil {
				t.Errorf("%d bytes are read as %+v", n, got)
			}
		}
		newer := *s
		newer.About = append([]byte{9}, s.About[1:]...)
		if _, err := index.Read(newer); err == nil || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("a newer form: %v", err)
		}
	})
}

// TestSizeOfNames measures the memory of the index of names, and compares it with
// docs/operations/sizing.md.
func TestSizeOfNames(t *testing.T) {
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("needs a real Redis: set " + redistest.EnvURL)
	}
	const names = 50_000 // of a million each takes 40 bytes less: a field of the ids has 15 of them then
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	run, _, err := l.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: "acme", Kind: tasks.TypeVerify})
	if err != nil {
		t.Fatal(err)
	}
	stager, err := l.NewStager(t.Context(), run)
	if err == nil {
		err = stager.Add(t.Context(), []byte("row"))
	}
	if err == nil {
		run, err = stager.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var ends []ledger.RowEnd
	for i := range names {
		organization, name := "org_"+rand.Text()[:16], fmt.Sprintf("customer-%d.example", i)
		ends = append(ends, ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: index.Entry{
			Domain: discovery.Domain{
				OrganizationID: organization, ID: "ord_" + rand.Text()[:22], Name: name,
				Host: "_ss-verification." + organization + "." + name, TXT: "4df023cd7bbe09c0e2f95901123024fe",
				Status: schema.StatusVerified,
			},
			Read: now, State: "present", At: now,
			Run: "20261127-030000-abcd", Row: ledger.Row(i % ledger.SegmentRows),
		}.Subject()})
	}
	if _, err := l.End(t.Context(), seg, ledger.NewNonce(), ends...); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, key := range append(redistest.Keys(t, "*:names"), redistest.Keys(t, "*:ids")...) {
		used := rdb.MemoryUsage(t.Context(), key, 0).Val()
		t.Logf("%s: %d bytes a name", key, used/names)
		total += used
	}
	const want = 300 + 40
	if got := total / names; got > want || got < want*4/5 {
		t.Errorf("%d bytes a name, and %d are documented for so many: want at most these, and four fifths at least",
			got, want)
	}
}
