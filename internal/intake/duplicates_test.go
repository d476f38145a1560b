package intake_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// TestFindDuplicates compares the duplicates of random rows with those of a simple search.
func TestFindDuplicates(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := &strings.Builder{}
	text.WriteString("organization_id,client_id\n")
	var want intake.Duplicates
	first := map[int]int{}
	for i := range 5000 {
		n := random.IntN(3000)
		fmt.Fprintf(text, "o%d,c%d\n", n%7, n)
		row, there := first[n]
		if !there {
			first[n] = i
			continue
		}
		if want.Total++; want.Total <= 10 {
			want.First = append(want.First, intake.Duplicate{
				Line: i + 2, Row: int64(i), SameAs: row + 2, SameAsRow: int64(row),
			})
		}
	}
	plan, err := input(t, tasks.TypeRemove, text.String(), tasks.Defaults{}).Plan(0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plan.Duplicates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSameWork holds which rows are one piece of work.
func TestSameWork(t *testing.T) {
	for _, test := range []struct {
		name, kind, text string
		flags            tasks.Defaults
		want             int64
	}{
		{"other quotes and columns that are empty", tasks.TypeVerify,
			"organization_id,discovery_domain_id,verification_host\no,d,\n\"o\",d,\n", tasks.Defaults{}, 1},
		{"ids that are one text", tasks.TypeRemove, "organization_id,client_id\nab,c\na,bc\n", tasks.Defaults{}, 0},
		{"what a flag says and what the row says", tasks.TypeUpdate,
			"organization_id,discovery_domain_id,status\no,d,\no,d,pending\n", tasks.Defaults{"status": "pending"}, 1},
		{"domains of two organizations", tasks.TypeUpdate,
			"organization_id,discovery_domain_id,status\no,d,pending\np,d,verified\n", tasks.Defaults{}, 0},
		{"three of one", tasks.TypeRemove, "organization_id,client_id\na,b\na,b\na,b\n", tasks.Defaults{}, 2},
		{
			"templates", tasks.TypeCreate,
			strings.Repeat(
				`{"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`+"\n", 2), tasks.Defaults{}, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := input(t, test.kind, test.text, test.flags).Plan(0)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Duplicates.Total != test.want {
				t.Errorf("%d duplicates, want %d", plan.Duplicates.Total, test.want)
			}
			for _, one := range plan.Duplicates.First[:min(len(plan.Duplicates.First), 1)] {
				if want := (intake.Duplicate{Line: 3, Row: 1, SameAs: 2}); one != want {
					t.Errorf("the first duplicate is %+v, want %+v", one, want)
				}
			}
		})
	}
}

// TestContradictions has two rows of a file name one domain, or one template, and differ. Both
// would run at the same time, and chance would decide which of the two is in force.
func TestContradictions(t *testing.T) {
	const template = `{"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}` + "\n"
	const domain, name = "organization_id and discovery_domain_id", "name"
	for _, test := range []struct {
		name, kind, text string
		flags            tasks.Defaults
		subject          string // "": the rows are no contradiction
	}{
		{
			"another flag", tasks.TypeUpdate,
			"organization_id,discovery_domain_id,use_for_organization_discovery\no,d,true\no,d,false\n",
			tasks.Defaults{}, domain,
		},
		{"another status", tasks.TypeUpdate, "organization_id,discovery_domain_id,status\no,d,pending\no,d,verified\n",
			tasks.Defaults{}, domain},
		{"another status than a flag's", tasks.TypeUpdate, "organization_id,discovery_domain_id,status\no,d,\no,d,verified\n",
			tasks.Defaults{"status": "pending"}, domain},
		{"status and flag, each of which is sent with the other", tasks.TypeUpdate,
			"organization_id,discovery_domain_id,status,use_for_organization_discovery\no,d,pending,\no,d,,true\n",
			tasks.Defaults{}, domain},
		{
			"another host", tasks.TypeVerify,
			"organization_id,discovery_domain_id,verification_host\no,d,_a.example.com\no,d,_b.example.com\n",
			tasks.Defaults{}, domain,
		},
		{"another token", tasks.TypeVerify, "organization_id,discovery_domain_id,verification_txt\no,d,a\no,d,b\n",
			tasks.Defaults{}, domain},
		{
			"a flag, and none", tasks.TypeVerify,
			`{"organization_id":"o","discovery_domain_id":"d"}` + "\n" +
				`{"organization_id":"o","discovery_domain_id":"d","use_for_organization_discovery":true}`, tasks.Defaults{}, domain,
		},
		{"a template with another body", tasks.TypeCreate, template + strings.Replace(template, "portrait", "birth_date", 1),
			tasks.Defaults{}, name},
		{
			"a template in another order", tasks.TypeCreate,
			template + `{"type":"mdl",` + strings.Replace(template, `"type":"mdl",`, "", 1)[1:], tasks.Defaults{}, "",
		},
		{"a template of another name", tasks.TypeCreate, template + strings.Replace(template, `"n"`, `"m"`, 1),
			tasks.Defaults{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input(t, test.kind, test.text, test.flags)
			_, err := in.Plan(0)
			bad, refused := errors.AsType[*intake.BadRows](err)
			if test.subject == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			first := 1
			if test.text[0] != '{' {
				first = 2 // after the header
			}
			want := fmt.Sprintf("rows:%d: row 1: it contradicts row 0 (line %d), which has the same %s and other values: "+
				"remove one of the two", first+1, first, test.subject)
			if !refused || bad.Total != 1 || bad.First[0].Error() != want {
				t.Fatalf("%v, want %s", err, want)
			}
			in.Rows, in.SkipInvalid = strings.NewReader(test.text), true
			if plan, err := in.Plan(0); err != nil || plan.Rows != 2 || plan.Tasks != 1 || plan.Invalid.Total != 1 {
				t.Errorf("without invalid rows: %+v, %v", plan, err)
			}
		})
	}
}

// mixed are rows of clients, each fourth of them bad or a duplicate.
func mixed(n int) string {
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range n {
		switch i % 8 {
		case 3:
			fmt.Fprintf(&b, "org_%d,\n", i%5)
		case 7:
			fmt.Fprintf(&b, "org_%d,c_%d\n", (i-1)%5, i-1)
		default:
			fmt.Fprintf(&b, "org_%d,c_%d\n", i%5, i)
		}
	}
	return b.String()
}

// TestResumedWithBadRowsAndDuplicates: wherever the first attempt ended, the second
// completes the run, and the counts add up.
func TestResumedWithBadRowsAndDuplicates(t *testing.T) {
	const n = 12_000
	in := input(t, tasks.TypeRemove, mixed(n), tasks.Defaults{})
	in.SkipInvalid = true
	plan, err := in.Plan(0)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(i intake.Intake) error {
		in.Rows = strings.NewReader(mixed(n))
		sum, err := i.Submit(t.Context(), in, ledger.NewRun{ID: "a", Tenant: "default"})
		if err == nil && !sum.Run.HasAllRows() && (sum.Rows != plan.Rows || sum.Tasks != plan.Tasks) {
			t.Errorf("%+v, want the plan: %+v", sum, plan)
		}
		return err
	}
	killed := 0
	for _, scripts := range []int64{1, 3, 5, 9, 14, 20, 30, 1000} {
		if err := submit(dyingTaker(t, scripts)); err != nil {
			if killed++; !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
	}
	if err := submit(taker(t)); err != nil || killed < 3 {
		t.Fatalf("killed %d times, then %v", killed, err)
	}
	l := taker(t).Ledger
	run, err := l.Get(t.Context(), "", "a")
	if err != nil {
		t.Fatal(err)
	}
	const stored = intake.StoredDuplicates
	if diff := cmp.Diff(ledger.Counts{"invalid": n / 8, "unchanged": stored}, run.Counts); diff != "" ||
		run.Total() != n-n/8+stored || run.Settled() != n/8+stored {
		t.Errorf("total %d, settled %d, counts:\n%s", run.Total(), run.Settled(), diff)
	}
	for fate, err := range l.Each(t.Context(), run, ledger.WithResult, 0) {
		if err != nil {
			t.Fatal(err)
		}
		want := "line 5: client_id is missing"
		if fate.Item == 7 {
			want = "the same as row 6 (line 8)"
		}
		if fate.Result.Detail != want {
			t.Errorf("row %d: %s, want %s", fate.Item, fate.Result.Detail, want)
		}
		if fate.Item == 7 {
			break
		}
	}
	if plan.Invalid.Total != n/8 || plan.Duplicates.Total != n/8 || len(plan.Duplicates.First) != 10 {
		t.Errorf("plan %+v", plan)
	}
}

// TestDuplicatesFillNoRedis: a body that is little else than duplicates, which compress to
// nothing, fills no Redis with their results. All of them are counted, rows behind them are stored,
// and the same rows again are those of the run.
func TestDuplicatesFillNoRedis(t *testing.T) {
	const more = 500
	duplicates := strings.Repeat("org_1,c_1\n", intake.StoredDuplicates+more)
	text := "organization_id,client_id\norg_1,c_1\n" + duplicates + "org_1,c_2\n"
	for _, created := range []bool{true, false} {
		sub, err := taker(t).Submit(t.Context(), input(t, tasks.TypeRemove, text, tasks.Defaults{}),
			ledger.NewRun{ID: "a", Tenant: "default"})
		if err != nil {
			t.Fatal(err)
		}
		if sub.Created != created || sub.Rows != intake.StoredDuplicates+more+2 ||
			sub.Duplicates.Total != intake.StoredDuplicates+more {
			t.Errorf("created %t, %d rows, %d duplicates", sub.Created, sub.Rows, sub.Duplicates.Total)
		}
	}
	l := taker(t).Ledger
	run, err := l.Get(t.Context(), "", "a")
	if err != nil {
		t.Fatal(err)
	}
	if run.Total() != intake.StoredDuplicates+2 || run.Settled() != intake.StoredDuplicates {
		t.Errorf("%d rows, %d of them settled, want both rows and the first duplicates", run.Total(), run.Settled())
	}
	last, err := l.Contents(t.Context(), run, run.Total()-1, 1)
	if err != nil || len(last) != 1 || !strings.Contains(string(last[0]), "c_2") {
		t.Errorf("the last row is %q, %v", last, err)
	}
}
