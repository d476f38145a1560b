package intake_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/tasks"
)

// submitAll submits the input as run "a", to a Redis of its own.
func submitAll(t *testing.T, in intake.Input) (*ledger.Ledger, intake.Submitted) {
	t.Helper()
	i := taker(t)
	sum, err := i.Submit(t.Context(), in, runA)
	if err != nil || !sum.Created {
		t.Fatal(sum.Created, err)
	}
	return i.Ledger, sum
}

var runA = ledger.NewRun{ID: "a", Tenant: "default"}

func input(t *testing.T, kind, text string, d tasks.Defaults) intake.Input {
	t.Helper()
	return intake.Input{Name: "rows", Kind: kind, Defaults: d, Rows: strings.NewReader(text)}
}

// TestDefaultsAreStored: a row that is handed back has to be complete without
// the flags that it was submitted with.
func TestDefaultsAreStored(t *testing.T) {
	pending := tasks.Defaults{"status": "pending", "use_for_organization_discovery": "false"}
	tests := []struct {
		name, text string
		columns    []string
		want       []string
	}{
		{
			"csv without the columns", "organization_id,discovery_domain_id\no1,d1\n",
			[]string{"organization_id", "discovery_domain_id", "status", "use_for_organization_discovery"},
			[]string{
				`{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","use_for_organization_discovery":false}`,
			},
		},
		{
			"csv whose cells win",
			"status,organization_id,discovery_domain_id,use_for_organization_discovery\n,o1,d1,true\npending,o1,d2,\n",
			[]string{"status", "organization_id", "discovery_domain_id", "use_for_organization_discovery"},
			[]string{
				`{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","use_for_organization_discovery":true}`,
				`{"organization_id":"o1","discovery_domain_id":"d2","status":"pending","use_for_organization_discovery":false}`,
			},
		},
		{
			"json lines", `{"organization_id":"o1","discovery_domain_id":"d1","use_for_organization_discovery":true}`, nil,
			[]string{
				`{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","use_for_organization_discovery":true}`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := submitAll(t, input(t, tasks.TypeUpdate, tt.text, pending))
			if diff := cmp.Diff(tt.want, storedOf(t, l, "a")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.columns, ledgertest.Find(t, l, "a").Columns); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSubmitAgain submits rows under the id of a run that exists.
func TestSubmitAgain(t *testing.T) {
	const text = "organization_id,discovery_domain_id,status\no1,d1,pending\n"
	for _, tt := range []struct {
		name, kind, text string
		defaults         tasks.Defaults
		run              ledger.NewRun
		differs          string // "": the run is the same
	}{
		{"the same", tasks.TypeUpdate, text, tasks.Defaults{}, runA, ""},
		{"other line ends", tasks.TypeUpdate, strings.ReplaceAll(text, "\n", "\r\n"), tasks.Defaults{}, runA, ""},
		{"a flag that says what the row says", tasks.TypeUpdate, text, tasks.Defaults{"status": "pending"}, runA, ""},
		{"a flag that adds a member", tasks.TypeUpdate, text,
			tasks.Defaults{"use_for_organization_discovery": "true"}, runA, "header"},
		{"another row", tasks.TypeUpdate, strings.ReplaceAll(text, "d1", "d2"), tasks.Defaults{}, runA, "content"},
		{"a row more", tasks.TypeUpdate, text + "o1,d2,pending\n", tasks.Defaults{}, runA, "content"},
		{"another column", tasks.TypeUpdate, "status,organization_id,discovery_domain_id\npending,o1,d1\n",
			tasks.Defaults{}, runA, "header"},
		{"another kind", tasks.TypeVerify, "organization_id,discovery_domain_id\no1,d1\n", tasks.Defaults{}, runA, "kind"},
		{"another caller", tasks.TypeUpdate, text, tasks.Defaults{},
			ledger.NewRun{ID: "a", Tenant: "default", Description: ledger.Description{Caller: "crm"}}, "caller"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := submitAll(t, input(t, tasks.TypeUpdate, text, tasks.Defaults{}))
			sum, err := taker(t).Submit(t.Context(), input(t, tt.kind, tt.text, tt.defaults), tt.run)
			mismatch, differs := errors.AsType[*ledger.MismatchError](err)
			switch {
			case tt.differs == "" && (err != nil || sum.Created || sum.Rows != 1 || sum.Tasks != 1):
				t.Errorf("%+v, %v", sum, err)
			case tt.differs != "" && (!differs || string(mismatch.Member) != tt.differs):
				t.Errorf("%v, want another %s", err, tt.differs)
			}
			if run, err := l.Get(t.Context(), "", "a"); err != nil || run.Total() != 1 || run.Settled() != 0 {
				t.Errorf("the run has changed: %+v, %v", run, err)
			}
		})
	}
}

// TestRefusedLeavesNothing submits inputs that are refused at their end. Of none of them
// Redis keeps a run.
func TestRefusedLeavesNothing(t *testing.T) {
	const rows, duplicates = ledger.SegmentRows + 1000, 500
	many := removals(0, rows-duplicates) + strings.Repeat("o,c\n", duplicates)
	broken := errors.New("disk on fire")
	for _, tt := range []struct {
		name string
		in   intake.Input
		is   func(error) bool
	}{
		{"a bad row", input(t, tasks.TypeRemove, "organization_id,client_id\no,c\no,\n", tasks.Defaults{}), isBadRows},
		{"a bad row after many", input(t, tasks.TypeRemove, many+"o,\n", tasks.Defaults{}), isBadRows},
		{"no rows", input(t, tasks.TypeRemove, "organization_id,client_id\n", tasks.Defaults{}),
			func(err error) bool { return errors.Is(err, intake.ErrNoRows) }},
		{"too many rows", limited(input(t, tasks.TypeRemove, many, tasks.Defaults{}), rows-1),
			func(err error) bool { return errors.Is(err, intake.ErrTooManyRows) }},
		{"cut off", breaking(input(t, tasks.TypeRemove, many, tasks.Defaults{}), broken),
			func(err error) bool { return errors.Is(err, broken) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := taker(t)
			_, err := i.Submit(t.Context(), tt.in, runA)
			if _, part := errors.AsType[*intake.UnfinishedError](err); part || !tt.is(err) {
				t.Errorf("%v", err)
			}
			if _, err := i.Ledger.Get(t.Context(), "", "a"); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("the run: %v, want none", err)
			}
		})
	}
}

func isBadRows(err error) bool {
	_, ok := errors.AsType[*intake.BadRows](err)
	return ok
}

func limited(in intake.Input, rows int64) intake.Input {
	in.MaxRows = rows
	return in
}

// breaking returns the input, which cannot be read to its end.
func breaking(in intake.Input, err error) intake.Input {
	in.Rows = io.MultiReader(in.Rows, iotest.ErrReader(err))
	return in
}

// TestSubmitAfterOtherRows submits rows under the id of a run of which a producer that was
// killed has staged others, of which one is a duplicate of a row that is not among these.
func TestSubmitAfterOtherRows(t *testing.T) {
	head, tail := &strings.Builder{}, &strings.Builder{}
	for i := range 8192 {
		fmt.Fprintf(head, "o,head%d\n", i)
	}
	for i := range 8192 {
		fmt.Fprintf(tail, "o,tail%d\n", i)
	}
	const header = "organization_id,client_id\n"
	tail.WriteString("o,head5\no,last\n")
	in := input(t, tasks.TypeRemove, header+head.String()+tail.String(), tasks.Defaults{})
	other := strings.Replace(header+head.String()+tail.String(), "o,head5\n", "o,else\n", 1)
	scripts := int64(1)
	for ; ; scripts += int64(redistest.Stride(3)) {
		in.Rows = strings.NewReader(header + head.String() + tail.String())
		_, err := dyingTaker(t, scripts).Submit(t.Context(), in, runA)
		if err == nil {
			break
		}
		got, err := taker(t).Submit(t.Context(), input(t, tasks.TypeRemove, other, tasks.Defaults{}), runA)
		if _, differs := errors.AsType[*ledger.MismatchError](err); differs {
			deleteRun(t, "a")
			continue
		}
		if err != nil || got.Duplicates.Total != 0 {
			t.Fatalf("after %d scripts: %+v, %v", scripts, got.Duplicates, err)
		}
		run, err := taker(t).Ledger.Get(t.Context(), "", "a")
		if err != nil || run.Settled() != 0 || run.Total() != 2*8192+2 {
			t.Fatalf("after %d scripts: %d of %d rows are settled, %v", scripts, run.Settled(), run.Total(), err)
		}
		deleteRun(t, "a")
	}
	if scripts < 6 { // create, begin, stage thrice, commit
		t.Errorf("%d scripts are not killed", scripts)
	}
}

// deleteRun cancels and deletes a run.
func deleteRun(t *testing.T, id string) {
	t.Helper()
	l := taker(t).Ledger
	if run, err := l.Get(t.Context(), "", ledger.RunID(id)); err != nil {
		t.Fatal(err)
	} else if run.HasAllRows() && !run.Ended() {
		if err := l.Cancel(t.Context(), "default", ledger.RunID(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledgertest.Control(t.Context(), l, (*ledger.Ledger).Delete, ledger.RunID(id)); err != nil {
		t.Fatal(err)
	}
}

// TestTooManyBadRows skips more bad rows than a submission may store: it is refused, and leaves
// nothing in Redis.
func TestTooManyBadRows(t *testing.T) {
	row := "a/b," + strings.Repeat("x", 2000) + "\n"
	in := input(t, tasks.TypeRemove, "organization_id,client_id\no,c\n"+strings.Repeat(row, 9000), tasks.Defaults{})
	in.SkipInvalid = true
	i := taker(t)
	_, err := i.Submit(t.Context(), in, runA)
	if !errors.Is(err, intake.ErrTooManyBad) || !strings.Contains(err.Error(), "rows:3: row 1: ") {
		t.Errorf("%v", err)
	}
	if _, err := i.Ledger.Get(t.Context(), "", "a"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the run: %v", err)
	}
}

// TestLongBadRows submits bad rows that are long, of which a gzip body of a few kilobytes has
// hundreds of megabytes: they would fill Redis for a month.
func TestLongBadRows(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, text := range []string{
		"organization_id,client_id\no,c\n" + strings.Repeat("a/b,"+long+"\n", 20),
		`{"organization_id":"o","client_id":"c"}` + "\n" +
			strings.Repeat(`{"organization_id":"a/b","client_id":"`+long+`"}`+"\n", 20),
	} {
		t.Run(text[:1], func(t *testing.T) {
			in := input(t, tasks.TypeRemove, text, tasks.Defaults{})
			in.SkipInvalid = true
			l, sub := submitAll(t, in)
			rows := storedOf(t, l, "a")
			if len(rows) != 21 || sub.Invalid.Total != 20 {
				t.Fatalf("%d rows", len(rows))
			}
			for i, row := range rows {
				if len(row) > 3<<10 {
					t.Errorf("row %d has %d bytes in Redis", i, len(row))
				}
			}
		})
	}
}
