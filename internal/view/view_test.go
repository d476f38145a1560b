package view_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"orgops/internal/activity"
	"orgops/internal/discovery"
	"orgops/internal/index"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/view"
	"orgops/internal/web"
	"orgops/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a Redis with two tenants, acme and other, and a store of it.
type world struct {
	t      *testing.T
	rdb    redis.Cmdable
	ledger *ledger.Ledger
	store  *view.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	rdb := redistest.New(t)
	w := &world{t: t, rdb: rdb, ledger: ledger.New(rdb)}
	in := intake.New(rdb, w.ledger)
	in.VerifyAfter = time.Millisecond
	w.store = view.NewStore(view.Config{Redis: rdb, Ledger: w.ledger, Intake: in,
		Tenants: func() []string { return []string{"acme", "third"} }})
	return w
}

// submit submits a run of rows of these organizations by a caller.
func (w *world) submit(tenant ledger.Tenant, id ledger.RunID, caller string, organizations ...string) {
	w.t.Helper()
	var rows []string
	for _, organization := range organizations {
		rows = append(rows, `{"organization_id":"`+organization+`","discovery_domain_id":"ord_1"}`)
	}
	ledgertest.Submit(w.t, w.ledger, ledger.NewRun{ID: id, Tenant: tenant,
		Description: ledger.Description{Caller: caller, Format: "jsonl"}}, rows...)
}

// knows stores a domain in the index of names.
func (w *world) knows(tenant ledger.Tenant, run ledger.RunID, organization, id, name string) {
	w.t.Helper()
	r, err := w.ledger.Run(w.t.Context(), tenant, run)
	must(w.t, err)
	k := index.Entry{Domain: discovery.Domain{OrganizationID: organization, ID: id, Name: name, Host: "_v." + name,
		TXT: "t"}, At: time.Now(), Run: run}
	_, err = w.ledger.End(w.t.Context(), ledger.Segment{Tenant: tenant, Run: run, Incarnation: r.Incarnation},
		ledger.NewNonce(), ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: k.Subject()})
	must(w.t, err)
}

func (w *world) tenant(u web.User, name string) view.Tenant {
	w.t.Helper()
	t, err := w.store.For(u).Tenant(name)
	must(w.t, err)
	return t
}

// as returns a user of the name who.
func as(role web.Role, tenants []string, organizations ...string) web.User {
	return web.User{Name: "who", Role: role, Tenants: tenants, Organizations: organizations, Kinds: []string{"*"}}
}

var (
	acme  = []string{"acme"}
	every = []string{"*"}
)

// TestRunsOfUsers checks whose a run is: by its tenant, by the role, and of a submitter by name and
// organizations.
func TestRunsOfUsers(t *testing.T) {
	w := newWorld(t)
	w.submit("acme", "mine", "who", "org_1")
	w.submit("acme", "both", "who", "org_1", "org_2")
	w.submit("acme", "theirs", "another", "org_1")
	w.submit("other", "far", "who", "org_1")
	run := ledgertest.Create(t, w.ledger, ledger.NewRun{ID: "invalid", Tenant: "acme",
		Description: ledger.Description{Caller: "who", Format: "jsonl"}})
	stager, err := w.ledger.NewStager(t.Context(), run)
	must(t, err)
	must(t, stager.Add(t.Context(), []byte(`{"organization_id":"org_1","discovery_domain_id":"ord_1"}`)))
	must(t, stager.AddSettled(t.Context(), []byte(`{"organization_id":"org_9"}`),
		ledger.Result{Outcome: ledger.Outcome(ledger.InvalidRow), Detail: "no id"}))
	_, err = stager.Commit(t.Context())
	must(t, err)

	ofAcme := []string{"both", "invalid", "mine", "theirs"}
	for name, c := range map[string]struct {
		user web.User
		want []string
	}{
		"a reader of a tenant":           {as(web.Reader, acme), ofAcme},
		"an operator of a tenant":        {as(web.Operator, acme), ofAcme},
		"a reader of all":                {as(web.Reader, every), append([]string{"far"}, ofAcme...)},
		"support":                        {as(web.Support, every), nil},
		"a customer":                     {as(web.Customer, every, "org_1"), nil},
		"a submitter":                    {as(web.Submitter, every), []string{"both", "far", "invalid", "mine"}},
		"a submitter of a tenant":        {as(web.Submitter, acme), []string{"both", "invalid", "mine"}},
		"a submitter of an organization": {as(web.Submitter, acme, "org_1"), []string{"invalid", "mine"}},
		"a submitter of two organizations": {as(web.Submitter, acme, "org_1", "org_2"),
			[]string{"both", "invalid", "mine"}},
		"a submitter of all organizations":      {as(web.Submitter, acme, "*"), []string{"both", "invalid", "mine"}},
		"a submitter of a tenant without runs":  {as(web.Submitter, []string{"third"}), nil},
		"a submitter of another organization":   {as(web.Submitter, every, "org_9"), nil},
		"a submitter of the same, by rows read": {as(web.Submitter, acme, "org_1"), []string{"invalid", "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := w.store.For(c.user)
			slices.Sort(c.want)
			var byID, read, each []string
			for _, id := range []string{"both", "far", "invalid", "mine", "theirs"} {
				run, err := v.Run(t.Context(), "", id)
				named, notNamed := v.Run(t.Context(), map[bool]string{true: "other", false: "acme"}[id == "far"], id)
				if err == nil && run.ID == named.ID && notNamed == nil {
					byID = append(byID, id)
				} else if !errors.Is(err, ledger.ErrNotFound) || !errors.Is(notNamed, ledger.ErrNotFound) {
					t.Errorf("run %s: %v, %v", id, err, notNamed)
				}
			}
			runs, _, _, err := v.Runs(t.Context(), status.RunFilter{}, ledger.Place{}, 50)
			must(t, err)
			for _, r := range runs {
				read = append(read, string(r.ID))
			}
			must(t, v.EachRun(t.Context(), func(r ledger.Run) { each = append(each, string(r.ID)) }))
			slices.Sort(read)
			slices.Sort(each)
			if !slices.Equal(byID, c.want) || !slices.Equal(read, c.want) || !slices.Equal(each, c.want) {
				t.Errorf("by id %v, in a list %v, one by one %v; want %v", byID, read, each, c.want)
			}
			if c.user.Role != web.Submitter {
				return
			}
			submitted, _, err := v.Submitted(t.Context(), status.RunFilter{Caller: "another"}, ledger.Place{}, 50)
			must(t, err)
			var own []string
			for _, r := range submitted {
				own = append(own, string(r.ID))
			}
			slices.Sort(own)
			if !slices.Equal(own, c.want) {
				t.Errorf("submitted %v, want %v", own, c.want)
			}
		})
	}
}

// TestRunThatIsBeingSubmitted: of a run that gets further rows nothing is remembered.
func TestRunThatIsBeingSubmitted(t *testing.T) {
	w := newWorld(t)
	run := ledgertest.Create(t, w.ledger, ledger.NewRun{ID: "a", Tenant: "acme",
		Description: ledger.Description{Caller: "who", Format: "jsonl"}})
	v := w.store.For(as(web.Submitter, acme, "org_1"))
	if _, err := v.Run(t.Context(), "acme", "a"); err != nil {
		t.Errorf("without rows: %v", err)
	}
	ledgertest.Commit(t, w.ledger, run, `{"organization_id":"org_2","discovery_domain_id":"ord_1"}`)
	if _, err := v.Run(t.Context(), "acme", "a"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("with rows of another organization: %v", err)
	}
}

// TestOpenWork checks that open runs and single rows are those of the tenants that are given.
func TestOpenWork(t *testing.T) {
	w := newWorld(t)
	w.submit("acme", "a", "who", "org_1")
	w.submit("other", "b", "who", "org_1")
	v := w.store.For(as(web.Reader, acme))
	own, err := v.Tenants(t.Context())
	must(t, err)
	for want, tenants := range map[string][]view.Tenant{"acme acme": own, "": nil} {
		runs, ahead, err := v.OpenWork(t.Context(), tenants, 10)
		must(t, err)
		var got []string
		for _, r := range runs {
			got = append(got, string(r.Tenant))
		}
		if strings.Join(got, " ") != want || len(ahead) != len(runs) {
			t.Errorf("%d estimates of runs of %v, want of %q", len(ahead), got, want)
		}
	}
}

// TestRunWithoutAName: text that is no id of a run, or no name of a tenant, is one that is missing.
func TestRunWithoutAName(t *testing.T) {
	w := newWorld(t)
	v := w.store.For(as(web.Reader, every))
	for _, name := range [][2]string{{"", ""}, {"", "a/b"}, {"No Tenant", "a"}, {"acme", "none"}, {"", "none"}} {
		if _, err := v.Run(t.Context(), name[0], name[1]); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("run %q of tenant %q: %v, want it missing", name[1], name[0], err)
		}
	}
}

// TestRunOfSeveralTenants: of the tenants that have a run of an id those of the user count.
func TestRunOfSeveralTenants(t *testing.T) {
	w := newWorld(t)
	for _, tenant := range []ledger.Tenant{"acme", "other", "third"} {
		w.submit(tenant, "same", "who", "org_1")
	}
	for tenants, want := range map[string]string{
		"acme": "acme", "third": "third", "acme other": "acme, other", "none": "",
	} {
		run, err := w.store.For(as(web.Reader, strings.Fields(tenants))).Run(t.Context(), "", "same")
		several, ambiguous := errors.AsType[*ledger.AmbiguousError](err)
		var got string
		switch {
		case ambiguous:
			var names []string
			for _, t := range several.Tenants {
				names = append(names, string(t))
			}
			got = strings.Join(names, ", ")
		case err == nil:
			got = string(run.Tenant)
		case !errors.Is(err, ledger.ErrNotFound):
			t.Error(err)
		}
		if got != want {
			t.Errorf("a user of %s has that of %q, want %q", tenants, got, want)
		}
	}
}

// TestFleetOfUsers checks that states, workers and open rows are those of the user's tenants.
func TestFleetOfUsers(t *testing.T) {
	w := newWorld(t)
	w.submit("acme", "a", "who", "org_1")
	w.submit("other", "b", "who", "org_1")
	for id, tenants := range map[string][]ledger.Tenant{
		"workerboth000000": {"acme", "other"}, "workerother00000": {"other"}, "workernone000000": nil,
	} {
		_, err := w.ledger.Renew(t.Context(), ledger.Session{ID: ledger.SessionID(id), Tenants: tenants})
		must(t, err)
	}
	for _, c := range []struct {
		tenants, seen, workers, open string
	}{
		{"acme", "acme", "workerboth000000 acme", "acme"},
		{"other", "other", "workerboth000000 other, workerother00000 other", "other"},
		{"*", "acme other third", "workerboth000000 acme other, workernone000000, workerother00000 other", "acme other"},
		{"none", "", "", ""},
	} {
		v := w.store.For(as(web.Reader, strings.Fields(c.tenants)))
		f, err := v.Fleet(t.Context())
		must(t, err)
		var seen, workers []string
		for _, state := range f.Tenants {
			seen = append(seen, state.Name)
		}
		for _, s := range f.Workers {
			text := string(s.ID)
			for _, name := range s.Tenants {
				text += " " + string(name)
			}
			workers = append(workers, text)
		}
		slices.Sort(workers)
		open := strings.Join(slices.Sorted(maps.Keys(v.OpenRows(t.Context()))), " ")
		if strings.Join(seen, " ") != c.seen || strings.Join(workers, ", ") != c.workers || open != c.open {
			t.Errorf("a user of %s sees %v, %v, open rows of %s; want %v, %v, %s", c.tenants, seen, workers, open, c.seen,
				c.workers, c.open)
		}
		tenants, err := v.Tenants(t.Context())
		must(t, err)
		var names []string
		for _, one := range tenants {
			names = append(names, one.Name())
		}
		if want := c.open; strings.Join(names, " ") != want {
			t.Errorf("a user of %s has tenants with runs %v, want %s", c.tenants, names, want)
		}
	}
}

// TestTenantOfAnother: a tenant or an organization of others is not found, whether or not there is
// one.
func TestTenantOfAnother(t *testing.T) {
	w := newWorld(t)
	w.submit("other", "a", "who", "org_1")
	v := w.store.For(as(web.Operator, acme))
	for _, name := range []string{"other", "none"} {
		_, err := v.Tenant(name)
		want := "there is no tenant " + name + ", or your access does not include it"
		if !errors.Is(err, ledger.ErrNotFound) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	limited := w.tenant(as(web.Support, acme, "org_1"), "acme")
	must(t, w.store.For(as(web.Support, acme, "org_1")).Organization("org_1"))
	if _, err := limited.Domain("org_2", "ord_1"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a domain of another organization: %v", err)
	}
	_, _, _, err := limited.Sweep(t.Context(), "org_2", false)
	runs, noRuns := w.ledger.Runs(t.Context(), "acme")
	if !errors.Is(err, ledger.ErrNotFound) || noRuns != nil || len(runs) > 0 {
		t.Errorf("a sweep of another organization: %v, runs %v, %v", err, runs, noRuns)
	}
}

// TestOnlyTenant returns the name of a user's only tenant.
func TestOnlyTenant(t *testing.T) {
	w := newWorld(t)
	for tenants, want := range map[string]string{"acme": "acme", "*": "", "acme other": ""} {
		if got := w.store.For(as(web.Submitter, strings.Fields(tenants))).OnlyTenant(); got != want {
			t.Errorf("of %s: %q, want %q", tenants, got, want)
		}
	}
}

// TestActivityOfAnother: the activity of a tenant of others is not in that of the user.
func TestActivityOfAnother(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"acme", "other"} {
		activity.Author{Redis: w.rdb, Name: "who"}.Record(t.Context(), activity.OfRun(name, "a", activity.Paused, ""))
	}
	page, _, err := w.store.For(as(web.Reader, acme)).Activity(t.Context(),
		activity.Query{Tenants: []string{"acme", "other"}, Limit: 10})
	if err != nil || len(page) != 1 || page[0].Tenant != "acme" {
		t.Errorf("%v, %v; want one entry of acme", page, err)
	}
}

// TestDomainsOfAnother: a domain of another organization is not found by its name, its beginning,
// its id, its organization or what sweeps have stored, and no state names that organization.
func TestDomainsOfAnother(t *testing.T) {
	w := newWorld(t)
	w.submit("acme", "a", "who", "org_1", "org_2")
	w.knows("acme", "a", "org_1", "ord_1", "mine.example")
	w.knows("acme", "a", "org_2", "ord_2", "theirs.example")
	for id, organization := range map[string]string{"ord_1": "org_1", "ord_2": "org_2", "ord_3": "org_2"} {
		state, err := json.Marshal(sweep.DomainState{V: 1, OrganizationID: organization, Domain: "swept.example",
			State: "present"})
		must(t, err)
		_, err = sweep.NewStore(w.rdb, "acme").SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: state})
		must(t, err)
	}
	for _, c := range []struct {
		name string
		user web.User
		want bool
	}{
		{"of the organization", as(web.Customer, acme, "org_2"), true},
		{"of another", as(web.Customer, acme, "org_1"), false},
		{"of all", as(web.Support, acme), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.store.For(c.user)
			of := w.tenant(c.user, "acme")
			found := map[string]bool{}
			for name, q := range map[string]status.DomainQuery{
				"name": {Name: "theirs.example"}, "beginning": {Name: "thei"}, "id": {ID: "ord_2"},
				"organization": {Organization: "org_2"}, "sweeps": {ID: "ord_3", Swept: true},
			} {
				for _, q.Tenant = range []string{"", "acme"} {
					q.Most = 10
					f, err := v.Find(t.Context(), q)
					must(t, err)
					found[name+" "+q.Tenant] = len(f.Domains) > 0
				}
			}
			found["its name"] = of.NameOf(t.Context(), "ord_2") != ""
			_, err := of.Report(t.Context(), "ord_2")
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				t.Fatal(err)
			}
			found["its report"] = err == nil
			if d, err := of.Domain("org_1", "ord_2"); err == nil { // of an id that is another's
				state, err := d.State(t.Context(), 0)
				must(t, err)
				found["a state"] = state.Other != ""
			}
			for by, is := range found {
				if is != c.want {
					t.Errorf("found by %s: %v, want %v", by, is, c.want)
				}
			}
		})
	}
}

// TestDomainOfAnotherTenant checks that neither a domain nor a run of a tenant of others is found,
// that the answer for such a tenant is the one for a tenant that does not exist, and that a tenant
// of this process exists.
func TestDomainOfAnotherTenant(t *testing.T) {
	w := newWorld(t)
	w.submit("other", "a", "who", "org_1")
	w.knows("other", "a", "org_1", "ord_1", "theirs.example")
	v := w.store.For(as(web.Operator, []string{"acme", "third", "fourth"}))
	for _, q := range []status.DomainQuery{{ID: "ord_1"}, {Name: "theirs.example"}, {Name: "th"},
		{Organization: "org_1"}} {
		q.Most = 1
		found, err := v.Find(t.Context(), q)
		if err != nil || len(found.Domains) > 0 {
			t.Errorf("%+v finds %+v, %v", q, found, err)
		}
	}
	for name, exists := range map[string]bool{"other": false, "nobody": false, "fourth": false, "third": true} {
		_, err := v.Find(t.Context(), status.DomainQuery{Tenant: name, ID: "ord_1", Most: 1})
		_, noRun := v.Run(t.Context(), name, "a")
		want := "there is no tenant " + name + ", or your access does not include it"
		runWanted := want
		if exists {
			want = "<nil>"
			runWanted = "there is no run a, or your access does not include it"
		}
		if fmt.Sprint(err) != want || fmt.Sprint(noRun) != runWanted {
			t.Errorf("tenant %s: %v and %v, want %s and %s", name, err, noRun, want, runWanted)
		}
	}
}

// TestSubmissionsOfUsers: rows of other organizations are refused, and a run is the user's.
func TestSubmissionsOfUsers(t *testing.T) {
	w := newWorld(t)
	w.submit("acme", "a", "another", "org_1", "org_2")
	w.knows("acme", "a", "org_2", "ord_2", "theirs.example")
	of := w.tenant(as(web.Submitter, acme, "org_1"), "acme")
	input := func(rows string) intake.Input {
		return intake.Input{Name: "rows", Kind: tasks.TypeVerify, Rows: strings.NewReader(rows + "\n")}
	}
	const theirs = `{"organization_id":"org_2","discovery_domain_id":"ord_2"}`
	_, err := of.Submit(t.Context(), input(`{"organization_id":"org_1","discovery_domain_id":"ord_1"}`),
		ledger.NewRun{ID: "mine", Tenant: "other", Description: ledger.Description{Caller: "another"}}, view.Submission{})
	must(t, err)
	if r, err := w.ledger.Run(t.Context(), "acme", "mine"); err != nil || r.Caller != "who" {
		t.Errorf("submitted by %q, %v; want the user's, of the tenant", r.Caller, err)
	}
	for _, rows := range []string{theirs, `{"domain":"theirs.example"}`} {
		_, err := of.Submit(t.Context(), input(rows), ledger.NewRun{ID: "bad"}, view.Submission{})
		if _, bad := errors.AsType[*intake.BadRows](err); !bad {
			t.Errorf("submit %s: %v, want it refused", rows, err)
		}
		_, err = of.Plan(t.Context(), input(rows))
		if _, bad := errors.AsType[*intake.BadRows](err); !bad {
			t.Errorf("estimate %s: %v, want it refused", rows, err)
		}
	}
}
