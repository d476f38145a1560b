package scan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

const listRun = ledger.RunID("list")

// withClient gives some of 250 organizations the client: the first, the last, and one of each page.
func (w *world) withClient() {
	for i := range 250 {
		w.sandbox.AddOrganization(fmt.Sprintf("org_%03d", i), "")
	}
	w.sandbox.AddClients("org_000", "other", client)
	w.sandbox.AddClient("org_150", client, false)
	w.sandbox.AddClients("org_249", client)
	w.sandbox.EntitleApps("org_249", true)
}

// listing is a scan that lists three organizations of a client.
func listing() scenario {
	return scenario{
		name: "list",
		rows: []string{"org_000/", "org_150/", "org_249/"},
		begin: func(w *world) {
			w.withClient()
			w.list(run0)
		},
		more: func(w *world) string {
			w.sandbox.AddClients("org_9", client)
			return "org_9/"
		},
		end: func(w *world) {
			w.wantFound("org_000/", "org_150/", "org_249/")
			w.wantProgress(progress.Scan{Client: client, Read: 250, Found: 3, Entitled: 1, Ended: true})
			r := w.read(run0)
			if r.Counts[ledger.Unchanged] != 3 || !r.Ended() {
				w.t.Errorf("counts %v, ended %t: want three rows that are settled", r.Counts, r.Ended())
			}
			w.wantNoneRemoved()
		},
	}
}

// removing is a scan that finds the rows of a list, one of whose organizations has lost the client
// meanwhile.
func removing() scenario {
	return scenario{
		name: "everywhere",
		rows: []string{"org_000/", "org_150/"},
		begin: func(w *world) {
			w.withClient()
			w.sandbox.AddClients("org_200", client)
			list := w.lists(listRun)
			w.sandbox.RemoveClient("org_200", client)
			w.sandbox.RemoveClient("org_249", client)
			w.removes(list)
		},
		end: func(w *world) {
			w.wantFound("org_000/", "org_150/")
			p := w.progress()
			p.ListIncarnation = ""
			want := progress.Scan{Client: client, List: string(listRun), Counted: 4, Read: 250, Found: 2, Ended: true}
			if p != want {
				w.t.Errorf("progress %+v, want %+v", p, want)
			}
			for _, row := range w.read(run0).rows {
				var content tasks.RemoveRow
				if err := json.Unmarshal(row.Content, &content); err != nil || row.Result.Outcome != "" ||
					content.ClientID != client || content.UseForMemberAccess == nil ||
					*content.UseForMemberAccess != (content.OrganizationID == "org_000") {
					w.t.Errorf("row %s with result %+v, %v: want an open removal with its use_for_member_access", row.Content,
						row.Result, err)
				}
			}
		},
	}
}

// list creates a run that lists the organizations of the client.
func (w *world) list(id ledger.RunID) {
	w.t.Helper()
	if _, _, err := w.intake().BeginList(w.t.Context(), client, ledger.NewRun{ID: id, Tenant: tenant}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantNoneRemoved() {
	w.t.Helper()
	if n := w.requests(sandbox.OpRemoveOrganizationClients); n > 0 {
		w.t.Errorf("%d removals were sent", n)
	}
}

// TestNoneBeforeTheComparison: at each write of a removal that finds more than was counted there is
// no row that could be released, and none in the end, whatever is killed. The refusal has both
// numbers and the new organizations.
func TestNoneBeforeTheComparison(t *testing.T) {
	begin := func(t *testing.T) *world {
		w := newWorld(t)
		w.withClient()
		list := w.lists(listRun)
		for i := range 20 {
			w.sandbox.AddClients(fmt.Sprintf("org_new%02d", i), client)
		}
		w.removes(list)
		return w
	}
	undisturbed, sab := begin(t), &saboteur{at: -1}
	undisturbed.drain(undisturbed.worker(sab))
	for k, call := range sab.calls {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s after %t", k, call, after), func(t *testing.T) {
				w := begin(t)
				sab := &saboteur{at: k, after: after, act: func() {
					if n := len(w.read(run0).rows); n > 0 {
						t.Errorf("%d rows before the scan has ended", n)
					}
				}}
				w.kill(sab)
				w.scanned()
				r := w.read(run0)
				if len(r.rows) > 0 || !r.Ended() {
					t.Errorf("rows %v, ended %t: want none", r.rows, r.Ended())
				}
				early := w.progress().Early
				for _, want := range []string{"counted 3, found 23", "run list does not list 20", "org_new00, org_new01",
					" and 10 more. Nothing was removed", "enqueue clients remove --client client_1 --everywhere"} {
					if !strings.Contains(early, want) {
						t.Errorf("ended early: %s; want %q in it", early, want)
					}
				}
			})
		}
	}
}

// TestNoListOfAClient: the reasons for which no row is listed, or none is removed.
func TestNoListOfAClient(t *testing.T) {
	for _, tc := range []struct {
		name  string
		begin func(w *world)
		want  string
	}{
		{"a list, no organization says", func(w *world) {
			w.sandbox.AddOrganization("org_1", "")
			w.list(run0)
		}, "no organization says that it has client client_1: the id is wrong, none has the client, or the tenant does " +
			"not know the parameter include_client_association_for"},
		{"a removal, no organization says any more", func(w *world) {
			w.sandbox.AddClients("org_1", client)
			list := w.lists(listRun)
			w.sandbox.RemoveClient("org_1", client)
			w.removes(list)
		}, "no organization says that it has client client_1"},
		{"the list was deleted", func(w *world) {
			w.sandbox.AddClients("org_1", client)
			w.removes(w.lists(listRun))
			if err := w.Delete(w.t.Context(), tenant, listRun); err != nil {
				w.t.Fatal(err)
			}
		}, "run list, whose rows were counted, was deleted"},
		{"the list was deleted, and there is another", func(w *world) {
			w.sandbox.AddClients("org_1", client)
			w.removes(w.lists(listRun))
			if err := w.Delete(w.t.Context(), tenant, listRun); err != nil {
				w.t.Fatal(err)
			}
			w.lists(listRun)
		}, "run list, whose rows were counted, was deleted"},
		{"a removal, an organization that cannot be read", func(w *world) {
			w.sandbox.AddClients("org_1", client)
			w.removes(w.lists(listRun))
			w.api = answered(w.api, apiclient.Listed[schema.OrganizationOf]{Err: fmt.Errorf("want an object, got 7")})
		}, "organizations that could not be compared: 1 (an organization: want an object, got 7)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.begin(w)
			w.scanned()
			r := w.read(run0)
			if early := w.progress().Early; len(r.rows) > 0 || !strings.Contains(early, tc.want) {
				t.Errorf("rows %v, ended early: %s; want none, and %q", r.rows, early, tc.want)
			}
		})
	}
}

// answered is an API whose pages of the organizations of a client have another record.
func answered(api func(apiclient.Binding) scan.API,
	more apiclient.Listed[schema.OrganizationOf]) func(apiclient.Binding) scan.API {
	return func(b apiclient.Binding) scan.API { return oneMore{api(b), more} }
}

type oneMore struct {
	scan.API

	more apiclient.Listed[schema.OrganizationOf]
}

func (o oneMore) OrganizationsPageFor(ctx context.Context,
	client, from string) (page []apiclient.Listed[schema.OrganizationOf], next string, err error) {
	page, next, err = o.API.OrganizationsPageFor(ctx, client, from)
	return append(page, o.more), next, err
}

// TestListedTwice: an organization that pages have twice is one row of a list, and of a removal.
func TestListedTwice(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddClients("org_1", client)
	w.sandbox.AddClients("org_2", client)
	twice := apiclient.Listed[schema.OrganizationOf]{Record: schema.OrganizationOf{
		Organization: schema.Organization{ID: "org_1"}, Client: &schema.ClientAssociation{UseForMemberAccess: new(true)}}}
	w.api = answered(w.api, twice)
	list := w.lists(listRun)
	if list.Total() != 2 {
		t.Fatalf("%d rows", list.Total())
	}
	w.removes(list)
	w.scanned()
	w.wantFound("org_1/", "org_2/")
}

// TestProtectedAreLeftOut: organizations that are protected are neither listed nor removed, nor are
// those that are protected since.
func TestProtectedAreLeftOut(t *testing.T) {
	w := newWorld(t)
	for _, org := range []string{"org_1", "org_2", "org_3"} {
		w.sandbox.AddClients(org, client)
	}
	w.protected = []string{"org_1"}
	list := w.lists(listRun)
	w.protected = append(w.protected, "org_2")
	w.removes(list)
	w.scanned()
	w.wantFound("org_3/")
	if p := w.progress(); p.Protected != 2 || p.Counted != 2 || p.Found != 1 {
		t.Errorf("progress %+v", p)
	}
}

// TestBigList: a list of more rows than a step takes, and than a segment has.
func TestBigList(t *testing.T) {
	w := newWorld(t)
	const n = 9000
	for i := range n {
		w.sandbox.AddClients(fmt.Sprintf("org_%d", i), client)
	}
	list := w.lists(listRun)
	w.removes(list)
	w.kill(&saboteur{at: n/100 + 4}) // while rows are taken
	w.scanned()
	r := w.read(run0)
	ids := names(t, r.rows)
	slices.Sort(ids)
	if len(ids) != n || len(slices.Compact(ids)) != n {
		t.Errorf("%d rows, %d different, want %d", len(r.rows), len(ids), n)
	}
	if kinds := r.Kind; kinds != handlers.Remove {
		t.Errorf("kind %s", kinds)
	}
}
