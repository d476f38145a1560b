package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/results"
	"orgops/internal/sandbox"
	"orgops/internal/status"
	"orgops/tasks"
)

// verifyRun is a run of domains in the core, and the worker that verifies them.
type verifyRun struct {
	desk
	box     *sandbox.Sandbox
	worker  *process
	domains map[string]sandbox.Domain
}

// state reads the state of a domain as commands and pages do.
func (v verifyRun) state(name string) (status.Domain, status.DomainRow) {
	v.t.Helper()
	d, err := status.DomainOf(v.t.Context(), v.redis, v.ledger,
		status.DomainName{Tenant: tasks.DefaultTenant, Organization: "org_1", ID: v.domains[name].ID}, 2)
	if err != nil || len(d.Rows) != 1 {
		v.t.Fatalf("%s: %d rows, %v", name, len(d.Rows), err)
	}
	return d, d.Rows[0]
}

// wantReport compares the report of the domain with its last row.
func (v verifyRun) wantReport(name, domainStatus string) {
	v.t.Helper()
	_, row := v.state(name)
	r, err := status.Report(v.t.Context(), v.redis, v.ledger, tasks.DefaultTenant, v.domains[name].ID)
	open, proven := row.Outcome == "", row.Outcome == ledger.Done
	// The row's reason begins with a word for programs, such as not_yet.
	explained := r.Reason != "" && strings.HasSuffix(row.Reason, r.Reason)
	if err != nil || r.Host != v.domains[name].Host || r.Status != domainStatus || r.Checked != open ||
		r.Next.IsZero() == open || explained == (proven || row.Evidence == nil) || r.ProvenAt.IsZero() == proven ||
		r.Read.IsZero() {
		v.t.Errorf("%s: %+v, %v; its row: %+v", name, r, err, row)
	}
}

// waits returns once the row of the domain is open for that reason, and returns its state.
func (v verifyRun) waits(name, reason string) (status.Domain, status.DomainRow) {
	v.t.Helper()
	v.openFor("job", 1, reason, v.domains[name].Host)
	return v.state(name)
}

// requests returns how many requests of each operation were about a domain.
func (v verifyRun) requests(name string) map[string]int {
	n := map[string]int{}
	for _, r := range v.box.Requests() {
		if r.Domain == v.domains[name].ID {
			n[r.Operation]++
		}
	}
	return n
}

// line returns the index of the first log line with that message and these members; -1 if
// there is none.
func (v verifyRun) line(msg string, members map[string]string) (int, map[string]any) {
	for i, line := range logLines(v.worker.stderr.String()) {
		if line["msg"] == msg && has(line, members) {
			return i, line
		}
	}
	return -1, nil
}

// startVerify submits a file of domains: one whose token is published, one whose token is
// published later, one whose token is never published, one with another value, one whose zone
// fails at first and one that is verified.
func startVerify(t *testing.T) verifyRun {
	t.Helper()
	v := verifyRun{desk: newDesk(t), box: startBox(t, sandbox.Options{}), domains: map[string]sandbox.Domain{}}
	file := "organization_id,discovery_domain_id\n"
	for i, name := range []string{"there", "later", "never", "other", "failing", "verified"} {
		d := sandbox.Domain{ID: fmt.Sprintf("ord_%d", i)}
		if name == "verified" {
			d.Status = "verified"
		}
		v.domains[name] = v.box.AddDomain("org_1", d)
		file += "org_1," + v.domains[name].ID + "\n"
	}
	v.box.SetTXT(v.domains["there"].Host, v.domains["there"].TXT)
	v.box.SetTXT(v.domains["other"].Host, "of-another-service")
	v.box.SetRCode(v.domains["failing"].Host, dns.RcodeServerFailure, -1)
	v.worker = begin(t, pointedAt(v.box, redistest.URL(t), map[string]string{"ORGOPS_GIVE_UP": "20s"}))
	v.handIn(ledger.NewRun{ID: "job"}, tasks.TypeVerify, []byte(file))
	return v
}

// TestVerifyCore verifies domains of a file, from the submission to the end.
func TestVerifyCore(t *testing.T) {
	redistest.NeedsLong(t, "a row is checked again after 15 s")
	t.Parallel()
	v := startVerify(t)
	known, later := v.waits("later", "not_yet: There is no TXT record at ")
	if d := v.domains["later"]; known.Record == nil ||
		*known.Record != (evidence.Record{Domain: d.Domain, Host: d.Host, TXT: d.TXT}) {
		t.Errorf("record %+v, want that of %+v", known.Record, d)
	}
	if e := later.Evidence; e == nil || e.State != "absent" || len(e.Said) == 0 || e.At.IsZero() || e.Compared != nil ||
		e.Next.IsZero() {
		t.Errorf("evidence %+v", e)
	}
	if _, other := v.waits("other", "holds another value than the expected one"); other.Evidence == nil ||
		other.Evidence.Reason != "other_value" {
		t.Errorf("evidence of another value: %+v", other.Evidence)
	}
	if _, failing := v.waits("failing", "could not be checked"); failing.Evidence == nil ||
		failing.Evidence.State != "unknown" {
		t.Errorf("evidence of a zone that fails: %+v", failing.Evidence)
	}
	for _, name := range []string{"later", "other", "failing"} {
		v.wantReport(name, "pending")
	}
	if w, err := status.WaitingOf(t.Context(), v.ledger, ledgertest.Find(v.t, v.ledger, "job"), 10); err != nil ||
		w == nil || w.Read != 4 || w.WithReason != 4 {
		t.Errorf("waiting: %+v, %v; want 4 reasons", w, err)
	}
	for _, name := range []string{"later", "failing"} {
		v.box.SetRCode(v.domains[name].Host, dns.RcodeSuccess, 0)
		v.box.SetTXT(v.domains[name].Host, v.domains[name].TXT)
	}
	v.finished("job")
	if c := v.run("job").Counts; c[ledger.Done] != 3 || c[ledger.Expired] != 2 || c[ledger.Unchanged] != 1 {
		t.Errorf("counts %v", c)
	}
	v.wantProofs()
	v.wantExpired()
	for name, domainStatus := range map[string]string{"there": "verified", "later": "verified", "failing": "verified",
		"verified": "verified", "never": "pending", "other": "pending"} {
		v.wantReport(name, domainStatus)
	}
	if read := v.requests("verified"); read[sandbox.OpUpdateDiscoveryDomain] != 0 {
		t.Errorf("requests %v for a domain that is verified", read)
	}
}

// wantProofs checks that each proof is shown, exported and logged, and that its event was sent
// before its row was settled.
func (v verifyRun) wantProofs() {
	v.t.Helper()
	exported := map[string]int64{}
	for proof, err := range (results.Proofs{Tenant: tasks.DefaultTenant}).All(v.t.Context(), v.ledger) {
		if err != nil {
			v.t.Fatal(err)
		}
		exported[proof.Compared.DiscoveryDomainID] = proof.Item
	}
	if len(exported) != 3 {
		v.t.Errorf("proofs of %v, want 3", exported)
	}
	for name, item := range map[string]int64{"there": 0, "later": 1, "failing": 4} {
		d := v.domains[name]
		if got, _ := v.box.Domain("org_1", d.ID); got.Status != "verified" {
			v.t.Errorf("%s: %+v", name, got)
		}
		_, state := v.state(name)
		if e := state.Evidence; state.Item != item || e == nil || e.State != "present" || e.Compared == nil ||
			e.Compared.TXT != d.TXT || exported[d.ID] != item {
			v.t.Errorf("%s: row %d, evidence %+v, exported as row %d", name, state.Item, e, exported[d.ID])
		}
		if n := v.requests(name); n[sandbox.OpUpdateDiscoveryDomain] != 1 ||
			n[sandbox.OpGetDiscoveryDomain] != map[bool]int{true: 1, false: 2}[name == "there"] {
			v.t.Errorf("%s: requests %v, want one PATCH, and a read of the row and one right before the proof", name, n)
		}
		_, audit := v.line("audit", map[string]string{"event": "domain verified", "tenant": "default", "run": "job",
			"discovery_domain_id": d.ID, "organization_id": "org_1", "domain": d.Domain, "verification_host": d.Host})
		if audit == nil || audit["item"] != float64(item) || audit["quorum"] == nil || audit["operators"] == nil {
			v.t.Errorf("%s: audit line %v", name, audit)
		}
		event, _ := v.line("event", map[string]string{"event": events.DomainVerified, "discovery_domain_id": d.ID,
			"run": "job", "tenant": "default"})
		settled := -1
		for i, line := range logLines(v.worker.stderr.String()) {
			if line["msg"] == "task" && line["outcome"] == "done" && line["row"] == float64(item) {
				settled = i
			}
		}
		if event < 0 || settled < event {
			v.t.Errorf("%s: the event is line %d, the end line %d", name, event, settled)
		}
	}
}

// wantExpired checks that the expired rows have the evidence of their last check, and that
// their events were sent.
func (v verifyRun) wantExpired() {
	v.t.Helper()
	for name, reason := range map[string]string{"never": "There is no TXT record at ", "other": "holds another value"} {
		_, state := v.state(name)
		if f := state.Row; f.Outcome != "expired" || !strings.Contains(f.Reason, reason) || state.Evidence == nil ||
			state.Evidence.State != "absent" {
			v.t.Errorf("%s: %+v, evidence %+v", name, f, state.Evidence)
		}
		if _, line := v.line("event", map[string]string{"event": events.DomainExpired,
			"discovery_domain_id": v.domains[name].ID, "reason": reason, "domain": v.domains[name].Domain}); line == nil {
			v.t.Errorf("%s: no event", name)
		} else if id := fmt.Sprint(line["id"]); strings.Contains(id, ".") {
			v.t.Errorf("%s: event id %q", name, id)
		}
	}
}
