package intake_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/index"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/results"
	"orgops/internal/rowfile"
	"orgops/tasks"
)

// byName submits rows that name their domains to a Redis whose index of names a test fills.
type byName struct {
	t      *testing.T
	intake intake.Intake
	trips  *redistest.RoundTrips
	seg    ledger.Segment
}

func newByName(t *testing.T) *byName {
	t.Helper()
	rdb, trips := redistest.New(t), &redistest.RoundTrips{}
	rdb.AddHook(trips.Hook())
	l := ledger.New(rdb)
	ledgertest.Submit(t, l, ledger.NewRun{ID: "learns", Tenant: "default", Kind: tasks.TypeVerify,
		Description: ledger.Description{Format: rowfile.FormatJSONL}}, `{}`)
	run := ledgertest.Find(t, l, "learns")
	return &byName{t: t, intake: intake.New(rdb, l), trips: trips,
		seg: ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}}
}

// learn adds domains to the index of names, each as its name, organization and id; without an
// organization it is removed.
func (b *byName) learn(domains ...[3]string) {
	b.t.Helper()
	for page := range slices.Chunk(domains, 100) {
		var ends []ledger.RowEnd
		for _, d := range page {
			subject := &ledger.Subject{ID: d[2], At: time.Now()}
			if d[1] != "" {
				subject = index.Entry{Domain: discovery.Domain{Name: d[0], OrganizationID: d[1], ID: d[2],
					Status: schema.StatusPending}, At: time.Now()}.Subject()
			}
			ends = append(ends, ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: subject})
		}
		if _, err := b.intake.Ledger.End(b.t.Context(), b.seg, ledger.NewNonce(), ends...); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *byName) submit(id, text string, change ...func(*intake.Input)) (intake.Submitted, error) {
	b.t.Helper()
	in := input(b.t, tasks.TypeVerify, text, tasks.Defaults{})
	for _, f := range change {
		f(&in)
	}
	return b.intake.Submit(b.t.Context(), in, ledger.NewRun{ID: ledger.RunID(id), Tenant: "default"})
}

// rows returns the stored rows of a run, each on a line.
func (b *byName) rows(id string) string {
	b.t.Helper()
	rows, err := b.intake.Ledger.Contents(b.t.Context(), ledger.Run{Tenant: "default", ID: ledger.RunID(id)}, 0, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(bytes.Join(rows, []byte("\n")))
}

var acme = [3]string{"acme.example", "org_1", "ord_1"}

// TestSubmitByName has rows of all forms, and what is stored of them.
func TestSubmitByName(t *testing.T) {
	const alone = `{"organization_id":"org_1","discovery_domain_id":"ord_1","domain":"acme.example"}`
	const bücher = `{"organization_id":"org_2","discovery_domain_id":"ord_2","domain":"xn--bcher-kva.example"}`
	for _, test := range []struct{ name, text, want string }{
		{"name alone", "domain\nACME.example.\nBücher.example\n", alone + "\n" + bücher},
		{"JSON Lines", `{"domain":"acme.EXAMPLE"}`, alone},
		{"with an organization: a worker finds it", "organization_id,domain\norg_9,Acme.example\n",
			`{"organization_id":"org_9","domain":"acme.example"}`},
		{"in the id's place", "organization_id,discovery_domain_id\norg_9,acme.example\n",
			`{"organization_id":"org_9","domain":"acme.example"}`},
		{"with ids", "organization_id,discovery_domain_id,domain\norg_9,ord_9,acme.example\n",
			`{"organization_id":"org_9","discovery_domain_id":"ord_9","domain":"acme.example"}`},
		{"with and without", "organization_id,domain,verification_txt\n,acme.example,a\norg_9,acme.example,b\n",
			strings.TrimSuffix(alone, "}") + `,"verification_txt":"a"}` + "\n" +
				`{"organization_id":"org_9","domain":"acme.example","verification_txt":"b"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newByName(t)
			b.learn(acme, [3]string{"bücher.example", "org_2", "ord_2"})
			if _, err := b.submit("a", test.text); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, b.rows("a")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSubmitByNameRefused has names that are not known, that several organizations have, and
// hostile ones: all of them are named with their lines, and nothing is stored.
func TestSubmitByNameRefused(t *testing.T) {
	b := newByName(t)
	b.learn(acme, [3]string{"two.example", "org_1", "ord_2"}, [3]string{"two.example", "org_2", "ord_3"})
	_, err := b.submit("a", strings.Join([]string{"domain", "acme.example", "other.example", "two.example",
		"*.acme.example", "аcme.example", "acme..example", strings.Repeat("a", 64) + ".example",
		"acme.example.other", "co.uk", ""}, "\n"))
	bad, _ := errors.AsType[*intake.BadRows](err)
	if bad == nil {
		t.Fatal(err)
	}
	want := []string{
		"rows:3: row 1: no domain other.example is known here: add its organization_id, or have the tenant's domains read",
		"rows:4: row 2: several organizations have domain two.example: org_1 (ord_2, pending), org_2 (ord_3, pending): " +
			"add the organization_id of one of them",
		`rows:5: row 3: domain "*.acme.example": has a label`,
		"rows:6: row 4: no domain xn--cme-5cd.example is known here",
		`rows:7: row 5: domain "acme..example": `,
		`rows:8: row 6: domain "aaaa`,
		"rows:9: row 7: no domain acme.example.other is known here",
		`rows:10: row 8: domain "co.uk": is a public suffix`,
	}
	if len(bad.First) != len(want) || bad.Unknown != 3 {
		t.Fatalf("%d bad rows, %d unknown: %v", len(bad.First), bad.Unknown, bad.First)
	}
	for i, err := range bad.First {
		if !strings.HasPrefix(err.Error(), want[i]) {
			t.Errorf("%v, want %s", err, want[i])
		}
	}
	if _, err := b.intake.Ledger.Get(t.Context(), "", "a"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the run exists: %v", err)
	}
}

// TestSubmitByNameOfOthers has a submitter of some organizations name domains of others: the error
// does not show that they exist.
func TestSubmitByNameOfOthers(t *testing.T) {
	b := newByName(t)
	b.learn(acme, [3]string{"acme.example", "org_2", "ord_2"}, [3]string{"other.example", "org_2", "ord_3"})
	mine := func(in *intake.Input) { in.Organizations = func(id string) bool { return id == "org_1" } }
	if _, err := b.submit("a", "domain\nacme.example\n", mine); err != nil {
		t.Fatal(err)
	}
	if want := `{"organization_id":"org_1","discovery_domain_id":"ord_1","domain":"acme.example"}`; b.rows("a") != want {
		t.Errorf("stored %s, want %s", b.rows("a"), want)
	}
	if _, err := b.submit("b", "domain\nother.example\n", mine); err == nil ||
		!strings.Contains(err.Error(), "no domain other.example is known") || strings.Contains(err.Error(), "org_2") {
		t.Errorf("error %v", err)
	}
}

// TestSubmitByNameAgain submits the same rows again. Since the index has other ids by then, they
// are other rows.
func TestSubmitByNameAgain(t *testing.T) {
	b := newByName(t)
	b.learn(acme)
	for range 2 {
		if _, err := b.submit("a", "domain\nacme.example\n"); err != nil {
			t.Fatal(err)
		}
	}
	b.learn([3]string{"acme.example", "", "ord_1"}, [3]string{"acme.example", "org_9", "ord_9"})
	_, err := b.submit("a", "domain\nacme.example\n")
	if _, differs := errors.AsType[*ledger.MismatchError](err); !differs {
		t.Errorf("other rows: %v", err)
	}
}

// TestExportByName checks that bad and failed rows keep their names, to be corrected, and that a
// row whose domain was found has its id.
func TestExportByName(t *testing.T) {
	b := newByName(t)
	b.learn(acme)
	rejected := &bytes.Buffer{}
	if _, err := b.submit("a", "domain,organization_id\nacme.example,\nother.example,\nlost.example,org_9\n",
		func(in *intake.Input) { in.SkipInvalid, in.Rejected = true, rejected }); err != nil {
		t.Fatal(err)
	}
	const msg = "no domain other.example is known here: add its organization_id, or have the tenant's domains read"
	if want := "domain,organization_id,orgops_error,orgops_row\nother.example,,\"" + msg + "\",\n"; rejected.String() != want {
		t.Errorf("rejected %s, want %s", rejected, want)
	}
	ledgertest.Settle(t, b.intake.Ledger, "a", string(ledger.Refused), "none", 0, 2)
	run := ledgertest.Find(t, b.intake.Ledger, "a")
	for _, test := range []struct {
		json bool
		want string
	}{
		{false, "organization_id,discovery_domain_id,orgops_outcome,orgops_error,domain,host,value,found,advice,mistake\n" +
			"org_1,ord_1,refused,none,acme.example,,,,,\n,,invalid,\"line 3: " + msg + "\",other.example,,,,,\n" +
			"org_9,,refused,none,lost.example,,,,,\n"},
		{true, `{"organization_id":"org_1","discovery_domain_id":"ord_1","orgops_outcome":"refused","orgops_error":"none","domain":"acme.example"}
{"orgops_outcome":"invalid","orgops_error":"line 3: ` + msg + `","domain":"other.example"}
{"organization_id":"org_9","orgops_outcome":"refused","orgops_error":"none","domain":"lost.example"}
`},
	} {
		out := &bytes.Buffer{}
		if _, err := results.ExportFailed(t.Context(), b.intake.Ledger, run, results.FailedOptions{JSON: test.json},
			out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestSubmitByNameRoundTrips looks ten thousand names up, of which a hundred differ, in few round
// trips.
func TestSubmitByNameRoundTrips(t *testing.T) {
	b := newByName(t)
	const rows, names = 10_000, 100
	var domains [][3]string
	text := &strings.Builder{}
	text.WriteString("domain\n")
	for i := range names {
		domains = append(domains, [3]string{fmt.Sprintf("d%d.example", i), "org_1", fmt.Sprintf("ord_%d", i)})
	}
	for i := range rows {
		fmt.Fprintln(text, domains[i%names][0])
	}
	b.learn(domains...)
	b.trips.Store(0)
	sub, err := b.submit("a", text.String())
	if err != nil || sub.Rows != rows || sub.Duplicates.Total != rows-names {
		t.Fatal(sub.Rows, err)
	}
	if n := b.trips.Load(); n > 200 { // 50 for the names, the others for the results of duplicates
		t.Errorf("%d round trips for %d names", n, rows)
	}
}

// TestPlanByName estimates rows that name their domains.
func TestPlanByName(t *testing.T) {
	b := newByName(t)
	b.learn(acme)
	in := input(t, tasks.TypeVerify, "domain,organization_id\nacme.example,\nother.example,org_1\n", tasks.Defaults{})
	in.Named = b.intake.Named(t.Context(), "default")
	plan, err := in.Plan(0)
	if want := []intake.OrganizationRows{{ID: "org_1", Rows: 2}}; err != nil || !slices.Equal(plan.Organizations, want) ||
		plan.Calls != 4 {
		t.Errorf("%+v, %v", plan, err)
	}
}
