package scan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
)

// sweptRow is the content of a row of a sweep.
type sweptRow struct {
	OrganizationID              string `json:"organization_id"`
	DiscoveryDomainID           string `json:"discovery_domain_id"`
	Domain                      string `json:"domain"`
	VerificationHost            string `json:"verification_host"`
	VerificationTXT             string `json:"verification_txt"`
	Status                      string `json:"status"`
	UseForOrganizationDiscovery *bool  `json:"use_for_organization_discovery"`
	Prove                       bool   `json:"prove"`
	Tick                        int64  `json:"tick"`
}

// swept returns the rows of run0 that are to be checked, and when, by domain.
func (w *world) swept() (rows map[string]sweptRow, due map[string]time.Time) {
	w.t.Helper()
	rows, due = map[string]sweptRow{}, map[string]time.Time{}
	for _, row := range w.read(run0).rows {
		if row.Result.Outcome != "" {
			continue
		}
		var r sweptRow
		d := json.NewDecoder(strings.NewReader(string(row.Content)))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			w.t.Fatal(err)
		}
		rows[r.DiscoveryDomainID], due[r.DiscoveryDomainID] = r, row.Due
	}
	return rows, due
}

// TestSweptRows: a row has the record as it was listed, and is due at once.
func TestSweptRows(t *testing.T) {
	w := sweeping().world(t)
	w.scanned()
	rows, due := w.swept()
	if len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
	for id, r := range rows {
		d, _ := w.sandbox.Domain(r.OrganizationID, id)
		if r.Domain != d.Domain || r.VerificationHost != d.Host || r.VerificationTXT != d.TXT || r.Status != d.Status ||
			r.Prove || r.Tick != start.Unix() {
			t.Errorf("row %+v of domain %+v", r, d)
		}
		if (r.UseForOrganizationDiscovery == nil) != (d.Use == nil) ||
			d.Use != nil && *d.Use != *r.UseForOrganizationDiscovery {
			t.Errorf("flag %v of domain %+v", r.UseForOrganizationDiscovery, d)
		}
		if due[id].After(start.Add(time.Minute)) {
			t.Errorf("row of %s is due at %v", id, due[id])
		}
	}
}

// TestSweepSpreadsItsChecks evenly over the time that it has, each domain at the same part
// of it in every sweep. Checks whose part is past are due then, thus at once.
func TestSweepSpreadsItsChecks(t *testing.T) {
	const domains, hours = 240, 8
	scanAt := func(t *testing.T, tick int64) map[string]time.Duration {
		w := newWorld(t)
		for i := range domains {
			w.sandbox.AddDomain(fmt.Sprintf("org_%d", i%8), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i),
				Domain: fmt.Sprintf("d%d.example.org", i), Status: "verified"})
		}
		w.sweep(progress.Scan{Tick: tick, SpreadUntil: tick + hours*3600})
		w.scanned()
		_, due := w.swept()
		if len(due) != domains {
			t.Fatalf("%d rows", len(due))
		}
		parts, inHour := map[string]time.Duration{}, [hours]int{}
		for id, at := range due {
			part := at.Sub(time.Unix(tick, 0))
			if part < 0 || part > hours*time.Hour {
				t.Fatalf("the row of %s is due at %s", id, at)
			}
			parts[id] = part
			inHour[min(int(part.Hours()), hours-1)]++
		}
		for hour, n := range inHour {
			if n < domains/hours/2 || n > domains/hours*2 {
				t.Errorf("%d checks in hour %d, want about %d: %v", n, hour, domains/hours, inHour)
			}
		}
		return parts
	}
	var first, second map[string]time.Duration
	t.Run("one day", func(t *testing.T) { first = scanAt(t, start.Unix()-4*3600) })
	t.Run("the next", func(t *testing.T) { second = scanAt(t, start.Unix()+20*3600) })
	for id, part := range first {
		if second[id] != part {
			t.Errorf("domain %s is checked %v after one tick and %v after the next", id, part, second[id])
		}
	}
}

// TestSweepOfPending: if it is to prove them each pending domain is a row; else those that
// have a state.
func TestSweepOfPending(t *testing.T) {
	for _, proves := range []bool{false, true} {
		t.Run(fmt.Sprint(proves), func(t *testing.T) {
			w := newWorld(t)
			w.states = states{"ord_3": true}
			for id, status := range map[string]string{"ord_1": "verified", "ord_2": "pending", "ord_3": "pending"} {
				w.sandbox.AddDomain("org_1", sandbox.Domain{ID: id, Status: status, Domain: id[4:] + ".example.org"})
			}
			w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_4", Status: "verified"})
			w.sweep(progress.Scan{Organization: "org_1", Tick: 1, Pending: proves})
			w.scanned()
			want := []string{"org_1/ord_1", "org_1/ord_3"}
			if proves {
				want = append(want, "org_1/ord_2")
			}
			w.wantFound(want...)
			rows, _ := w.swept()
			for id, r := range rows {
				if r.Prove != (proves && r.Status == "pending") {
					t.Errorf("the check of %s proves: %t", id, r.Prove)
				}
			}
		})
	}
}

// TestSweepOfUncheckableRecords: each such record is a settled row of its own, with
// its names.
func TestSweepOfUncheckableRecords(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 1<<20) }
	for name, tt := range map[string]struct {
		record schema.DiscoveryDomain
		why    string
	}{
		"public suffix": {schema.DiscoveryDomain{ID: "ord_1", Domain: "co.uk", VerificationHost: "_x.co.uk",
			VerificationTXT: "t"}, "cannot be proven"},
		"host elsewhere": {schema.DiscoveryDomain{ID: "ord_1", Domain: "example.org", VerificationHost: "_x.example.net",
			VerificationTXT: "t"}, "not below"},
		"no token": {schema.DiscoveryDomain{ID: "ord_1", Domain: "example.org", VerificationHost: "_x.example.org"},
			"verification_txt"},
		"odd id": {schema.DiscoveryDomain{ID: "../x", Domain: "example.org", VerificationHost: "_x.example.org",
			VerificationTXT: "t"}, "discovery_domain_id"},
		"long all": {schema.DiscoveryDomain{ID: long("i"), Domain: long("d"), VerificationHost: long("h"),
			VerificationTXT: long("t")}, "discovery_domain_id"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.record.Status = schema.StatusVerified
			w.api = onePage(tt.record).answered(w.api)
			w.sweep(progress.Scan{Organization: "org_1", Tick: 1})
			w.scanned()
			rows := w.read(run0).rows
			if ids, reasons := w.read(run0).refused(t); len(rows) != 1 || len(ids) != 1 ||
				!strings.Contains(reasons[0], tt.why) {
				t.Errorf("rows %.300s with %q, want one with %q", names(t, rows), reasons, tt.why)
			}
			if text := string(rows[0].Content); len(text) > 4096 || !strings.Contains(text, `"organization_id":"org_1"`) {
				t.Errorf("row %.300s", text)
			}
		})
	}
}

// TestLongestRows: rows of the longest records fit the ledger.
func TestLongestRows(t *testing.T) {
	label := strings.Repeat("a", 63)
	domain := strings.Join([]string{label, label, label[:20], "example.org"}, ".")
	id := strings.Repeat("i", 128)
	record := schema.DiscoveryDomain{ID: id, Domain: domain, VerificationHost: "_ss-verification." + domain,
		VerificationTXT: strings.Repeat("\x01", 4096)}
	for _, kind := range []string{"pending", "verified"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			record.Status = schema.DomainStatus(kind)
			w.api = onePage(record).answered(w.api)
			if kind == "pending" {
				w.pending("org_1")
			} else {
				w.sweep(progress.Scan{Organization: "org_1", Tick: 1})
			}
			w.scanned()
			if rows := w.read(run0).rows; len(rows) != 1 || rows[0].Result.Outcome != "" ||
				len(rows[0].Content) > ledger.MaxFoundRow {
				t.Errorf("%d rows: %+.300v", len(rows), rows)
			}
		})
	}
}

// failing is states that cannot be read, for a while.
type failing struct {
	scan.States
	w     *world
	until time.Duration
}

func (f failing) Domain(ctx context.Context, domain string) ([]byte, error) {
	if f.w.sinceStart() < f.until {
		return nil, errDead
	}
	return f.States.Domain(ctx, domain)
}

// TestSweepWithoutStates: a pending domain is left out only if its state was read.
func TestSweepWithoutStates(t *testing.T) {
	w := sweeping().world(t)
	w.states = failing{w.states, w, time.Minute}
	w.scanned()
	sweeping().end(w)
	if !slices.Contains(names(t, w.read(run0).rows), "org_4/ord_4") {
		t.Error("the domain with a state is left out")
	}
}
