package runs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/runs"
)

// TestPage holds that every run of a caller is on one page, and none of another,
// also where many were made in the same millisecond.
func TestPage(t *testing.T) {
	l, rdb := newLedger(t)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	var want []string
	for i := range 1203 {
		caller := []string{"billing", "crm", ""}[i%3]
		id := fmt.Sprintf("run-%04d", i)
		if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default", Caller: caller, CreatedAt: at.Add(time.Duration(i/700) * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
		if caller == "billing" {
			want = append([]string{id}, want...)
		}
	}
	// One that Redis has forgotten is read past, and taken out of the list.
	forgotten := want[5]
	if err := rdb.Del(t.Context(), "orgops:v1:{run:"+forgotten+"}:run").Err(); err != nil {
		t.Fatal(err)
	}
	want = append(want[:5:5], want[6:]...)

	ofBilling := func(r runs.Run) bool { return r.Caller == "billing" }
	var got []string
	var after runs.Place
	for {
		page, next, err := l.Page(t.Context(), runs.Wanted{Is: ofBilling, After: after, Most: 70})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		if next == (runs.Place{}) {
			break
		}
		if len(page) != 70 {
			t.Fatalf("a page of %d runs, want 70, since there are more", len(page))
		}
		after = next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if n := rdb.ZScore(t.Context(), "orgops:v1:runs", forgotten).Err(); n == nil {
		t.Error("the forgotten run is in the list still")
	}
}

func TestCallerIsKept(t *testing.T) {
	l, _ := newLedger(t)
	if _, _, err := l.Create(t.Context(), runs.Run{ID: "a", Kind: kind, Tenant: "default", Caller: "billing"}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, l, "a").Caller; got != "billing" {
		t.Errorf("caller %q, want billing", got)
	}
}

// TestPageReadsNoMoreThanAsked holds that where few runs are wanted among many, a page
// ends all the same, and the next one goes on behind it.
func TestPageReadsNoMoreThanAsked(t *testing.T) {
	l, _ := newLedger(t)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	for i := range 9 {
		if _, _, err := l.Create(t.Context(), runs.Run{ID: fmt.Sprint("run-", i), Kind: kind, Tenant: "default", CreatedAt: at.Add(time.Duration(i) * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
	}
	wanted := runs.Wanted{Is: func(r runs.Run) bool { return r.ID == "run-1" }, Most: 5, Look: 4}
	var got []string
	for range 3 {
		page, next, err := l.Page(t.Context(), wanted)
		if err != nil {
			t.Fatal(err)
		}
		ids := ""
		for _, r := range page {
			ids += r.ID
		}
		got = append(got, fmt.Sprintf("%s until %s", ids, next.ID))
		wanted.After = next
	}
	if diff := cmp.Diff([]string{" until run-5", "run-1 until run-1", " until "}, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}
