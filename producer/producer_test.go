package producer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ids"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/producer"
	"orgops/tasks"
)

// rows are a row of each kind, as it is stored.
var rows = map[string]string{
	producer.Verify:   `{"organization_id":"org_1","discovery_domain_id":"ord_1","use_for_organization_discovery":true}`,
	producer.Update:   `{"organization_id":"org_1","discovery_domain_id":"ord_1","status":"pending"}`,
	producer.Remove:   `{"organization_id":"org_1","client_id":"client_1"}`,
	producer.Template: `{"name":"mdl","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`,
}

// submitted returns the run and the content of its row.
func submitted(t *testing.T, rdb redis.Cmdable, id string) (ledger.Run, string) {
	t.Helper()
	l := ledger.New(rdb)
	run, err := l.Get(t.Context(), "", ledger.RunID(id))
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.Rows(t.Context(), ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}, 0, 2)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	return run, string(all[0].Content)
}

// TestSubmitAsAFile submits a row of each kind. Its run is that of a file with this row, but
// for the digest and the lists.
func TestSubmitAsAFile(t *testing.T) {
	rdb := redistest.New(t)
	p, in := producer.New(rdb), intake.New(rdb, ledger.New(rdb))
	for kind, row := range rows {
		t.Run(kind, func(t *testing.T) {
			ctx, name := t.Context(), strings.ReplaceAll(kind, ":", "-")
			id, err := p.Submit(ctx, producer.Row{ID: name, Kind: kind,
				Row: []byte(strings.ReplaceAll(row, `:"`, ` : "`)), GiveUp: time.Hour})
			if err != nil || id != name {
				t.Fatalf("id %s, %v", id, err)
			}
			file := intake.Input{Name: "rows.jsonl", Kind: kind, Rows: strings.NewReader(row)}
			if _, err := in.Submit(ctx, file, ledger.NewRun{ID: ledger.RunID(name + "-file"), Tenant: tasks.DefaultTenant,
				Description: ledger.Description{GiveUp: time.Hour, BatchWait: tasks.DefaultBatchWait}}); err != nil {
				t.Fatal(err)
			}
			single, content := submitted(t, rdb, name)
			run, want := submitted(t, rdb, name+"-file")
			if content != want || content != row {
				t.Errorf("content %s, want %s", content, want)
			}
			about := single.Description
			about.Single, about.Digest = false, run.Digest
			if fmt.Sprint(about) != fmt.Sprint(run.Description) || single.Kind != run.Kind || single.Tenant != run.Tenant ||
				single.Rows != 1 || single.Staged() {
				t.Errorf("run %+v, want as %+v", single, run)
			}
		})
	}
}

func TestSubmitProperties(t *testing.T) {
	rdb := redistest.New(t)
	p := producer.New(rdb)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	row := producer.Row{
		Tenant: "acme", Kind: producer.Remove, Row: []byte(rows[producer.Remove]),
		GiveUp: time.Minute, Label: "a customer who left", Priority: tasks.NormalPriority, NotBefore: later,
	}
	var runs []string
	for range 2 {
		id, err := p.Submit(t.Context(), row)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, id)
	}
	if runs[0] == runs[1] || ids.CheckRun(runs[0]) != nil {
		t.Errorf("ids %q, want two", runs)
	}
	run, _ := submitted(t, rdb, runs[0])
	about := run.Description
	if run.Tenant != "acme" || about.Label != row.Label || about.Priority != "normal" || about.GiveUp != time.Minute ||
		!run.NotBefore.Equal(later) {
		t.Errorf("run %+v", run)
	}
}

// TestSubmitRefuses rows and properties that are wrong, before it asks Redis.
func TestSubmitRefuses(t *testing.T) {
	p := producer.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1}))
	good := producer.Row{ID: "a", Kind: producer.Remove, Row: []byte(rows[producer.Remove])}
	for name, c := range map[string]struct {
		change func(*producer.Row)
		want   string
	}{
		"id":             {func(r *producer.Row) { r.ID = "a.b" }, "run: "},
		"tenant":         {func(r *producer.Row) { r.Tenant = "Acme" }, "tenant: "},
		"priority":       {func(r *producer.Row) { r.Priority = "urgent" }, "priority: "},
		"give-up":        {func(r *producer.Row) { r.GiveUp = -1 }, "give-up: "},
		"no kind":        {func(r *producer.Row) { r.Kind = "" }, "kind: "},
		"rows of sweeps": {func(r *producer.Row) { r.Kind = tasks.TypeRecheck }, "kind: "},
		"no row":         {func(r *producer.Row) { r.Row = nil }, "row a: "},
		"two rows":       {func(r *producer.Row) { r.Row = append(bytes.Clone(r.Row), r.Row...) }, "row a: "},
		"unknown member": {func(r *producer.Row) { r.Row = []byte(`{"organization_id":"o","client_id":"c","clientid":"c"}`) },
			`unknown member "clientid"`},
		"member twice": {func(r *producer.Row) {
			r.Row = []byte(`{"organization_id":"o","client_id":"c","client_id":"d"}`)
		}, "client_id"},
		"member missing": {func(r *producer.Row) { r.Row = []byte(`{"organization_id":"o"}`) }, "client_id"},
		"bad id": {func(r *producer.Row) { r.Row = []byte(`{"organization_id":"o/../p","client_id":"c"}`) },
			"organization_id"},
		"too long": {func(r *producer.Row) { r.Row = bytes.Repeat([]byte(" "), 2<<20) }, "bytes"},
	} {
		r := good
		c.change(&r)
		if id, err := p.Submit(t.Context(), r); id != "" || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: id %q, %v, want an error with %q", name, id, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if id, err := p.Submit(ctx, good); id != "a" || err == nil {
		t.Errorf("without Redis: id %q, %v, want the id and an error", id, err)
	}
}

// TestSubmitMismatch submits another row under an id, also under that of a run of many rows.
func TestSubmitMismatch(t *testing.T) {
	rdb := redistest.New(t)
	p := producer.New(rdb)
	ledgertest.Create(t, ledger.New(rdb), ledger.NewRun{ID: "old", Kind: tasks.TypeRecheck})
	submit := func(id, kind, row, tenant string) error {
		_, err := p.Submit(t.Context(), producer.Row{ID: id, Kind: kind, Row: []byte(row), Tenant: tenant})
		return err
	}
	if err := submit("a", producer.Remove, rows[producer.Remove], ""); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"client": submit("a", producer.Remove, `{"organization_id":"org_1","client_id":"client_2"}`, ""),
		"kind":   submit("a", producer.Update, rows[producer.Update], ""),
		"run":    submit("old", producer.Remove, rows[producer.Remove], ""),
	} {
		if !errors.Is(err, producer.ErrMismatch) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := submit("a", producer.Remove, `{"client_id": "client_1", "organization_id": "org_1"}`, ""); err != nil {
		t.Errorf("the same row, written otherwise: %v", err)
	}
}

// TestSubmitAtOnce submits rows from many goroutines, each twice.
func TestSubmitAtOnce(t *testing.T) {
	rdb := redistest.New(t)
	p := producer.New(rdb)
	const n = 30
	var submitters sync.WaitGroup
	for i := range 2 * n {
		submitters.Go(func() {
			client := i % n
			row := fmt.Appendf(nil, `{"organization_id":"org_1","client_id":"client_%d"}`, client)
			if _, err := p.Submit(t.Context(), producer.Row{ID: fmt.Sprint("row-", client), Kind: producer.Remove, Row: row,
				BatchWait: -1}); err != nil {
				t.Error(err)
			}
		})
	}
	submitters.Wait()
	l := ledger.New(rdb)
	entries, err := l.OpenSingles(t.Context(), "default")
	if err != nil || len(entries) != n {
		t.Errorf("%d single rows, %v, want %d", len(entries), err, n)
	}
	due, err := l.TakeDue(t.Context(), "default", 2*n)
	if err != nil || len(due.Segments) != n {
		t.Errorf("%d segments are due, %v, want %d", len(due.Segments), err, n)
	}
	all, err := ledger.New(rdb).Runs(t.Context())
	if err != nil || slices.ContainsFunc(all, func(r ledger.Run) bool { return strings.HasPrefix(string(r.ID), "row-") }) {
		t.Errorf("list %v, %v", all, err)
	}
}

// TestSubmitToANewerRedis submits to a Redis whose data a newer version has written.
func TestSubmitToANewerRedis(t *testing.T) {
	rdb := redistest.New(t)
	if err := rdb.Set(t.Context(), "orgops:schema", 99, 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := redistest.Keys(t, "*")
	_, err := producer.New(rdb).Submit(t.Context(), producer.Row{ID: "a", Kind: producer.Remove,
		Row: []byte(rows[producer.Remove])})
	if err == nil || !strings.Contains(err.Error(), "newer orgops") || len(redistest.Keys(t, "*")) != len(before) {
		t.Errorf("submitted: %v", err)
	}
}

// TestBatchWait submits removals, which wait for others of their organization.
func TestBatchWait(t *testing.T) {
	rdb := redistest.New(t)
	removal := []byte(rows[producer.Remove])
	for _, c := range []struct {
		wait, want time.Duration
	}{{0, tasks.DefaultBatchWait}, {-1, 0}, {time.Second, time.Second}} {
		id, err := producer.New(rdb).Submit(t.Context(), producer.Row{Kind: producer.Remove, Row: removal, BatchWait: c.wait})
		if err != nil {
			t.Fatal(err)
		}
		if run, _ := submitted(t, rdb, id); run.BatchWait != c.want || run.Group == "" {
			t.Errorf("%v: %+v, want %v", c.wait, run.Description, c.want)
		}
	}
	if _, err := producer.New(rdb).Submit(t.Context(),
		producer.Row{Kind: producer.Remove, Row: removal, BatchWait: time.Hour}); err == nil {
		t.Error("a wait of an hour is accepted")
	}
}
