package scan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// scenario is a scan and its result.
type scenario struct {
	name  string
	begin func(*world)
	end   func(*world)
	// rows are all that it may find.
	rows []string
	// more adds one that another scan finds too; nil: none does.
	more func(*world) string
}

// oneMore adds a domain of that status.
func (w *world) oneMore(status string) string {
	w.sandbox.AddDomain("org_9", sandbox.Domain{ID: "ord_9", Status: status})
	return "org_9/ord_9"
}

func (s scenario) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	s.begin(w)
	return w
}

// finding is a scan that finds two domains.
func finding() scenario {
	rows := []string{"org_1/ord_1", "org_3/ord_3"}
	return scenario{
		name: "pending", rows: rows,
		begin: func(w *world) {
			for _, d := range []struct{ org, id, status string }{
				{"org_1", "ord_1", "pending"}, {"org_2", "ord_2", "verified"}, {"org_3", "ord_3", "failed"},
			} {
				w.sandbox.AddDomain(d.org, sandbox.Domain{ID: d.id, Status: d.status, Use: new(false)})
			}
			w.sandbox.AddOrganization("org_4", "")
			w.pending("")
		},
		more: func(w *world) string { return w.oneMore("pending") },
		end: func(w *world) {
			w.wantFound("org_1/ord_1", "org_3/ord_3")
			w.wantProgress(progress.Scan{Read: 4, Ended: true})
		},
	}
}

// sweeping is a sweep whose scan finds four domains, one of which cannot be checked. A status that
// the specification does not have counts as pending.
func sweeping() scenario {
	tick := start.Unix()
	return scenario{
		name: "sweep", rows: []string{"org_1/ord_1", "org_3/ord_3", "org_4/ord_4", "org_5/ord_5"},
		begin: func(w *world) {
			w.states = states{"ord_4": true, "ord_5": true}
			for org, d := range map[string]sandbox.Domain{
				"org_1": {ID: "ord_1", Status: "verified"}, "org_2": {ID: "ord_2", Status: "pending"},
				"org_3": {ID: "ord_3", Status: "verified", Host: "_x.elsewhere.net"},
				"org_4": {ID: "ord_4", Status: "pending"}, "org_5": {ID: "ord_5", Status: "failed"},
				"org_6": {ID: "ord_6", Status: "failed"},
			} {
				w.sandbox.AddDomain(org, d)
			}
			w.sweep(progress.Scan{Tick: tick})
		},
		more: func(w *world) string { return w.oneMore("verified") },
		end: func(w *world) {
			w.wantFound("org_1/ord_1", "org_3/ord_3", "org_4/ord_4", "org_5/ord_5")
			w.wantProgress(progress.Scan{Tick: tick, Read: 6, Ended: true})
			if ids, reasons := w.read(run0).refused(w.t); len(ids) != 1 || ids[0] != "ord_3" {
				w.t.Errorf("settled rows %q with %q, want that of the host elsewhere", ids, reasons)
			}
		},
	}
}

func eachScan(t *testing.T, test func(t *testing.T, s scenario)) {
	t.Helper()
	for _, s := range append([]scenario{finding(), sweeping(), listing(), removing()}, badScans()...) {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

func TestScan(t *testing.T) {
	eachScan(t, func(t *testing.T, s scenario) {
		w := s.world(t)
		w.scanned()
		s.end(w)
		before := w.requests()
		again := w.worker(nil)
		for range 20 {
			w.round(again)
		}
		if n := w.requests() - before; n != 0 || !w.read(run0).HasAllRows() {
			t.Errorf("%d requests after the end", n)
		}
	})
}

// TestScanOfAThousand scans organizations whose numbers of domains are those at which pages
// end, and as many organizations.
func TestScanOfAThousand(t *testing.T) {
	w := newWorld(t)
	sizes := []int{0, 1, 2, 0, 3, 1, 0, 0}
	for i := range 1000 {
		o, n := fmt.Sprintf("org_%d", i), sizes[i%len(sizes)]
		switch i {
		case 0, 99, 100, 999:
			n = 100
		case 500:
			n = 101
		case 501:
			n = 250
		}
		w.sandbox.AddOrganization(o, "")
		for d := range n {
			status := "pending"
			if (i+d)%3 == 0 {
				status = "verified"
			}
			w.sandbox.AddDomain(o, sandbox.Domain{ID: fmt.Sprintf("ord_%d_%d", i, d),
				Domain: fmt.Sprintf("d%d.o%d.example.org", d, i), Status: status})
		}
	}
	w.pending("")
	w.scanned()
	w.wantFound(pendingDomains(w.sandbox)...)
	if got := w.requests(); got != 10+1000+1+2 {
		t.Errorf("%d requests, want one for each page: 10 of organizations, 1003 of domains", got)
	}
	w.wantProgress(progress.Scan{Read: 1000, Ended: true})
}

func TestScanOfOneOrganization(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_2"})
	w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_3"})
	w.pending("org_2")
	w.scanned()
	w.wantFound("org_2/ord_2", "org_2/ord_3")
	if n := w.requests(sandbox.OpListOrganizations); n != 0 {
		t.Errorf("organizations were listed %d times", n)
	}
}

func answering(status int) sandbox.Fault { return sandbox.Fault{Status: status} }

// TestScanLeavesOut: organizations that cannot be read are counted, with a reason, and the
// rows of the others are found.
func TestScanLeavesOut(t *testing.T) {
	for _, test := range []struct {
		name         string
		organization string
		fault        sandbox.Fault
		path         string // of the requests at fault
		found        []string
		want         progress.Scan // but for Ended
	}{
		{
			name: "an organization that never answers", fault: answering(http.StatusServiceUnavailable), path: "/org_2/",
			found: []string{"org_1/ord_1", "org_3/ord_3"},
			want:  progress.Scan{Read: 2, Missed: 1, Why: "organization org_2: given up after 17 attempts"},
		},
		{
			name: "an organization that is refused", fault: answering(http.StatusForbidden), path: "/org_2/",
			found: []string{"org_1/ord_1", "org_3/ord_3"},
			want:  progress.Scan{Read: 2, Missed: 1, Why: "organization org_2: "},
		},
		{
			name: "an organization that is gone", fault: answering(http.StatusNotFound), path: "/org_2/",
			found: []string{"org_1/ord_1", "org_3/ord_3"},
			want:  progress.Scan{Read: 2, Gone: 1},
		},
		{
			name: "all organizations are gone", fault: answering(http.StatusNotFound), path: "/discovery-domains",
			want: progress.Scan{Missed: 3, Why: "organization org_"},
		},
		{
			name: "the one organization does not exist", organization: "org_2",
			fault: answering(http.StatusNotFound), path: "/org_2/",
			want: progress.Scan{Organization: "org_2", Missed: 1, Why: "organization org_2: "},
		},
		{
			name: "the list is refused", fault: answering(http.StatusForbidden), path: "/organizations",
			want: progress.Scan{Early: "403"},
		},
		{
			name: "the list never answers", fault: answering(http.StatusServiceUnavailable), path: "/organizations",
			want: progress.Scan{Early: "given up after 17 attempts"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 3 {
				w.sandbox.AddDomain(fmt.Sprintf("org_%d", i+1), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i+1)})
			}
			test.fault.Match = func(r sandbox.Request) bool {
				return strings.HasSuffix(r.Path, test.path) ||
					strings.HasSuffix(test.path, "/") && strings.Contains(r.Path, test.path)
			}
			w.sandbox.AddFault(test.fault)
			w.pending(test.organization)
			w.scanned()
			w.wantFound(test.found...)
			got := w.progress()
			if !strings.Contains(got.Why, test.want.Why) || !strings.Contains(got.Early, test.want.Early) ||
				(got.Early == "") != (test.want.Early == "") {
				t.Errorf("progress %+v, want %+v", got, test.want)
			}
			got.Why, got.Early, test.want.Why, test.want.Early, test.want.Ended = "", "", "", "", true
			if got != test.want {
				t.Errorf("progress %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestScanSurvivesAnOutage: an outage that is shorter than the attempts last leaves nothing
// out, whatever a proxy answers meanwhile: its 404 does not say that an organization is gone.
func TestScanSurvivesAnOutage(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"502":                 answering(http.StatusBadGateway),
		"404 of a proxy":      {Status: http.StatusNotFound, HTML: true},
		"403 of a firewall":   {Status: http.StatusForbidden, HTML: true},
		"a portal's redirect": {Redirect: "https://portal.example/"},
	} {
		for _, operation := range []string{sandbox.OpListOrganizations, sandbox.OpListDiscoveryDomains} {
			t.Run(name+", "+operation, func(t *testing.T) {
				w := newWorld(t)
				for i := range 30 {
					w.sandbox.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{})
				}
				fault.Operation, fault.Match = operation, func(sandbox.Request) bool { return w.sinceStart() < time.Hour }
				w.sandbox.AddFault(fault)
				w.pending("")
				w.scanned()
				w.wantFound(pendingDomains(w.sandbox)...)
				w.wantProgress(progress.Scan{Read: 30, Ended: true})
			})
		}
	}
}

// TestScanPutsOff: organizations that cannot be read do not keep the scan from the next
// page, neither a few nor a whole step of them.
func TestScanPutsOff(t *testing.T) {
	for _, n := range []int{4, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			var bad []string
			for i := range 101 {
				w.sandbox.AddOrganization(fmt.Sprintf("org_%d", i), "")
				if i >= 100-n && i < 100 {
					bad = append(bad, fmt.Sprintf("/org_%d/", i))
				}
			}
			fault := answering(http.StatusServiceUnavailable)
			fault.Match = func(r sandbox.Request) bool {
				return slices.ContainsFunc(bad, func(path string) bool { return strings.Contains(r.Path, path) })
			}
			w.sandbox.AddFault(fault)
			w.pending("")
			w.scanned()
			if p := w.progress(); p.Read != int64(101-n) || p.Missed != int64(n) || p.Early != "" {
				t.Errorf("progress %+v, want all read but %d", p, n)
			}
		})
	}
}

// TestScanOfManyThatCannotBeRead: with a hundred organizations put off the scan reads no
// further page, and ends early.
func TestScanOfManyThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	for i := range 350 {
		w.sandbox.AddOrganization(fmt.Sprintf("org_%d", i), "")
	}
	fault := answering(http.StatusServiceUnavailable)
	fault.Operation = sandbox.OpListDiscoveryDomains
	w.sandbox.AddFault(fault)
	w.pending("")
	w.scanned()
	if p := w.progress(); p.Read != 0 || p.Missed < 100 || p.Missed > 200 ||
		!strings.Contains(p.Early, "given up after 17 attempts") {
		t.Errorf("progress %+v, want it ended early with 100 to 200 missed", p)
	}
}

// TestScanInACircle has a list of organizations whose checkpoints repeat, after some that do not.
func TestScanInACircle(t *testing.T) {
	for _, c := range []struct{ before, length int }{{0, 1}, {0, 7}, {5, 3}} {
		t.Run(fmt.Sprintf("%d then %d", c.before, c.length), func(t *testing.T) {
			w := newWorld(t)
			pages := 0
			w.api = fake{nil, func(string) (id, next string, err error) {
				at := pages
				if pages++; at >= c.before {
					at = c.before + (at-c.before)%c.length
				}
				return fmt.Sprint("org_", at), fmt.Sprint("checkpoint ", at), nil
			}, func(context.Context, scan.API, string, string) (domainPage, string, error) {
				return nil, "", nil
			}}.answered(w.api)
			w.pending("")
			w.scanned()
			if p := w.progress(); !p.Ended || !strings.Contains(p.Early, "never ends") {
				t.Errorf("progress %+v", p)
			}
			if most := 4 * (c.before + c.length + 1); pages > most {
				t.Errorf("%d pages were read, want at most %d", pages, most)
			}
		})
	}
}

func TestScanOfAnOrganizationWithoutEnd(t *testing.T) {
	w := newWorld(t)
	asked := 0
	w.api = fake{domains: func(context.Context, scan.API, string, string) (domainPage, string, error) {
		asked++
		return nil, fmt.Sprint(asked), nil
	}}.answered(w.api)
	w.pending("org_1")
	w.scanned()
	if p := w.progress(); p.Missed != 1 || !strings.Contains(p.Why, "does not end: 100 pages") || asked != 100 {
		t.Errorf("progress %+v, %d pages", p, asked)
	}
}

// TestScanKeepsAnswers: a step whose time is up is made of the answers so far, and the
// other organizations are tried again.
func TestScanKeepsAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 12 {
		w.sandbox.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{})
	}
	var answers atomic.Int64 // that are given; the other requests fail, or are never answered
	var never atomic.Bool
	w.api = fake{domains: func(ctx context.Context, api scan.API, org, from string) (domainPage, string, error) {
		switch {
		case answers.Add(-1) >= 0:
			return api.DiscoveryDomainsPage(ctx, org, from)
		case !never.Load():
			return nil, "", &apiclient.Error{Status: http.StatusServiceUnavailable}
		}
		<-ctx.Done()
		return nil, "", ctx.Err()
	}}.answered(w.api)
	w.timeout = 3 * time.Second
	w.pending("")
	of := w.worker(nil)
	w.until(of, func(r stored) bool {
		return r.position.Through && len(r.position.Left) == 0 && len(r.position.Late) == 12
	})
	never.Store(true)
	answers.Store(5)
	w.until(of, func(stored) bool { return w.progress().Read > 0 })
	if p := w.progress(); p.Read != 5 || p.Missed != 0 || p.Ended {
		t.Errorf("progress %+v, want 5 read, none missed, and more to come", p)
	}
	answers.Store(7)
	w.drain(of)
	w.wantFound(pendingDomains(w.sandbox)...)
	w.wantProgress(progress.Scan{Read: 12, Ended: true})
}

// TestPendingRows: the content of a row has the record as it was listed, so that its check
// needs no read of its own, but not a record that its check would refuse.
func TestPendingRows(t *testing.T) {
	w := newWorld(t)
	d := w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1", Use: new(false)})
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_2", Domain: "example.org", Host: "_x.elsewhere.net"})
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_3", Domain: "co.uk"})
	w.advance(time.Hour)
	w.pending("")
	w.scanned()
	rows := map[string]tasks.VerifyRow{}
	for _, row := range w.read(run0).rows {
		var r tasks.VerifyRow
		if err := json.Unmarshal(row.Content, &r); err != nil || r.Validate() != nil || row.Result.Outcome != "" ||
			row.Due.Sub(start.Add(time.Hour)).Abs() > time.Minute {
			t.Errorf("row %s: %v, %v, result %+v, due %v", row.Content, err, r.Validate(), row.Result, row.Due)
		}
		rows[r.DiscoveryDomainID] = r
	}
	l := rows["ord_1"].Listed
	if l == nil || l.VerificationHost != d.Host || l.VerificationTXT != d.TXT ||
		l.Status != schema.StatusPending || l.UseForOrganizationDiscovery == nil || *l.UseForOrganizationDiscovery {
		t.Errorf("listed is %+v, want the record %+v", l, d)
	}
	if at := l.At.Sub(start.Add(time.Hour)); at < 0 || at > time.Minute {
		t.Errorf("listed at %v, want a time right after %v", l.At, start.Add(time.Hour))
	}
	if len(rows) != 3 || rows["ord_2"].Listed != nil || rows["ord_3"].Listed != nil {
		t.Errorf("rows %+v, want three, of which two have no record", rows)
	}
}

// TestListingIsStampedWhenItIsSent: a listing that waits for its permit is as old as its
// request, not as the wait.
func TestListingIsStampedWhenItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.inLine(1, func() { time.Sleep(300 * time.Millisecond) })
	w.pending("org_1")
	w.scanned()
	var r tasks.VerifyRow
	if err := json.Unmarshal(w.read(run0).rows[0].Content, &r); err != nil {
		t.Fatal(err)
	}
	if at := r.Listed.At.Sub(start); at < 300*time.Millisecond {
		t.Errorf("listed %v after the step began, want the time of the request", at)
	}
}

// TestClasses: requests have the class of their scan.
func TestClasses(t *testing.T) {
	for class, s := range map[string]scenario{"finding ": finding(), "sweeping ": sweeping()} {
		t.Run(s.name, func(t *testing.T) {
			requests := 0
			for _, call := range callsOf(t, s) {
				of, isRequest := strings.CutSuffix(strings.TrimSuffix(call, "organizations"), "domains")
				if isRequest || of != call {
					requests++
					if of != class {
						t.Errorf("a request of class %q, want %q", of, class)
					}
				}
			}
			if requests == 0 {
				t.Error("no request was made")
			}
		})
	}
}
