package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/sandbox"
)

// cellsIn returns the cells of rows of CSV below their header; of JSON Lines the names.
func cellsIn(t *testing.T, rows string) (all [][]string) {
	t.Helper()
	if !strings.HasPrefix(rows, "{") {
		all, err := csv.NewReader(strings.NewReader(rows)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return all[1:]
	}
	for line := range strings.Lines(rows) {
		var named struct{ Name string }
		if err := json.Unmarshal([]byte(line), &named); err != nil {
			t.Fatal(err)
		}
		all = append(all, []string{named.Name})
	}
	return all
}

// cells returns the cells of the rows of a file.
func (f *fleet) cells(file string) [][]string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, file))
	if err != nil {
		f.t.Fatal(err)
	}
	return cellsIn(f.t, string(text))
}

// keyOf names the record that a row changes: organization and domain or client, or the
// template's name.
func keyOf(cells []string) string { return strings.Join(cells[:min(2, len(cells))], " ") }

// byRecord returns the requests that changed a record, and those that read a domain, by the record.
func byRecord(log []sandbox.Request) (changes, reads map[string][]sandbox.Request) {
	changes, reads = map[string][]sandbox.Request{}, map[string][]sandbox.Request{}
	for _, r := range log {
		domain := r.Organization + " " + r.Domain
		switch {
		case !r.Handled || r.Status/100 != 2:
		case r.Operation == sandbox.OpGetDiscoveryDomain:
			reads[domain] = append(reads[domain], r)
		case r.Operation == sandbox.OpUpdateDiscoveryDomain:
			changes[domain] = append(changes[domain], r)
		case r.Operation == sandbox.OpCreateTemplate:
			changes[r.Template] = append(changes[r.Template], r)
		case r.Operation == sandbox.OpRemoveOrganizationClients:
			for _, client := range r.Clients {
				key := r.Organization + " " + client
				changes[key] = append(changes[key], r)
			}
		}
	}
	return changes, reads
}

func domainsOf(s sandbox.State) map[string]sandbox.Domain {
	by := map[string]sandbox.Domain{}
	for organization, all := range s.Domains {
		for _, d := range all {
			by[organization+" "+d.ID] = d
		}
	}
	return by
}

// templatesOf returns the ids of the templates by their names.
func templatesOf(t *testing.T, s sandbox.State) map[string][]string {
	t.Helper()
	ids := map[string][]string{}
	for _, record := range s.Templates {
		var named struct{ ID, Name string }
		if err := json.Unmarshal(record, &named); err != nil {
			t.Fatal(err)
		}
		ids[named.Name] = append(ids[named.Name], named.ID)
	}
	return ids
}

// outcomes returns the results of a run's rows, in order. Counts, rows and results must agree.
func (f *fleet) outcomes(id string, rows int) []ledger.Result {
	f.t.Helper()
	fates := slices.Repeat([]ledger.Result{{Outcome: ledger.Done}}, rows)
	r := f.run(id)
	for row, err := range f.ledger.Each(f.t.Context(), r, ledger.WithResult, 0) {
		if err != nil {
			f.t.Fatal(err)
		}
		fates[row.Item] = row.Result
	}
	counts := ledger.Counts{}
	for _, fate := range fates {
		counts[fate.Outcome]++
	}
	if diff := gocmp.Diff(r.Counts, counts); diff != "" || r.Total() != int64(rows) || r.Settled() != r.Total() {
		f.t.Errorf("run %s: %d rows, %d settled, want %d; (-counts +rows):\n%s", id, r.Total(), r.Settled(), rows, diff)
	}
	return fates
}

// compare compares runs with the tenant and its request log, row by row: each has its effect, each
// domain was read before it was verified, and each template was created once. again is the number
// of requests of a run that may have been repeated. If Redis forgets results, any may, and such a
// row is found unchanged.
func (f *fleet) compare(rows, again int, of ...submission) {
	f.t.Helper()
	state := f.state()
	domains, templates := domainsOf(state), templatesOf(f.t, state)
	changes, reads := byRecord(f.box.Requests())
	for _, s := range of {
		requests, repeated, fates := map[int64]bool{}, map[int64]bool{}, f.outcomes(s.run, rows)
		unchanged := 0
		for i, cells := range f.cells(s.file) {
			key, fate := keyOf(cells), fates[i]
			d, made := domains[key], changes[key]
			there := false
			switch s.run {
			case "domains":
				there = isUse(d, "verified", "true")
				f.compareReads(key, made, reads[key])
			case "updates": // a row whose worker was killed after the PATCH is unchanged
				there = isUse(d, cmp.Or(cells[2], "verified"), cmp.Or(cells[3], "true"))
			case "clients":
				there = !slices.Contains(state.Clients[cells[0]], cells[1])
			case "templates":
				there = slices.Equal(templates[key], []string{fate.Detail}) && len(made) == 1
			}
			if fate.Outcome == ledger.Unchanged && (f.forgets || s.run == "updates") {
				unchanged++
			} else if fate.Outcome != ledger.Done {
				there = false
			}
			if !there || len(made) == 0 {
				f.t.Errorf("run %s: row %d (%s) is %s (%s), after %d changes; the tenant has %+v, templates %q", s.run, i, key,
					fate.Outcome, fate.Detail, len(made), d, templates[key])
			}
			for n, r := range made {
				requests[r.Seq] = true
				repeated[r.Seq] = repeated[r.Seq] || n > 0
			}
		}
		extra := unchanged
		for _, r := range repeated {
			if r {
				extra++
			}
		}
		f.t.Logf("run %s: %d requests were made again", s.run, extra)
		if extra > again && !f.forgets {
			f.t.Errorf("run %s: %d requests more than rows, want at most %d", s.run, extra, again)
		}
		// Rows that a worker gave back make batches with others than before.
		if most := 2*rows/100 + again; s.run == "clients" && len(requests) > most && !f.forgets {
			f.t.Errorf("run clients: %d requests for %d rows, want at most %d", len(requests), rows, most)
		}
		if s.run == "templates" && len(templates) != rows {
			f.t.Errorf("%d templates are there, want %d", len(templates), rows)
		}
	}
}

// isUse reports whether a domain has that status and flag.
func isUse(d sandbox.Domain, status, use string) bool {
	return d.Status == status && d.Use != nil && *d.Use == (use == "true")
}

// compareReads checks that a domain was read before each PATCH, since the last one. If Redis has
// lost that a row is in progress, it is executed twice at a time: each execution reads and sends a
// PATCH, in any order.
func (f *fleet) compareReads(key string, patches, reads []sandbox.Request) {
	f.t.Helper()
	var last int64
	for n, p := range patches {
		if p.Body != `{"status":"verified","use_for_organization_discovery":true}` {
			f.t.Errorf("%s: PATCHed with %s", key, p.Body)
		}
		before, want := 0, 1
		for _, r := range reads {
			if r.Seq > last && r.Seq < p.Seq {
				before++
			}
		}
		if f.forgets {
			want = n + 1
		} else {
			last = p.Seq
		}
		if before < want {
			f.t.Errorf("%s: PATCHed by request %d after %d GETs since request %d, want %d", key, p.Seq, before, last, want)
		}
	}
}
