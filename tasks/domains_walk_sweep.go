package tasks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"time"

	"orgops/apiclient"
)

// SweepPayload asks to go on, from that step, with the walk that finds the rows of a
// sweep; it is the payload of domains:sweep. It stands for no row: the sweep's tick,
// and where its walk goes, is in the ledger.
type SweepPayload struct {
	Envelope

	Step int64 `json:"step"`
}

// Validate checks what does not need the ledger.
func (p SweepPayload) Validate() error {
	if p.Step < 0 {
		return fmt.Errorf("step: want 0 or more, got %d", p.Step)
	}
	return nil
}

func (p SweepPayload) from() int64 { return p.Step }

func (p SweepPayload) onward(step int64) spec {
	next := p
	next.Step = step
	return next.task()
}

func (p SweepPayload) task() spec {
	return spec{typ: TypeSweep, payload: p, id: walkTaskID(p.Run, p.Step, p.Generation), queue: SweepQueue(p.Tenant)}
}

func (p SweepPayload) run(job Job, now time.Time) Run {
	return Run{ID: job.Run, Kind: TypeRecheck, Tenant: job.Tenant, CreatedAt: now, Generation: job.Generation}
}

func (p SweepPayload) parse(source []byte) (Row, error) {
	return kinds[TypeRecheck].Parse(source, Defaults{})
}

// row is that of each verified domain, and of a pending one where the sweep is to
// prove these, or where something is remembered of it: it may be that a sweep has
// made it pending. A record outside the specification may be verified unless it reads
// as pending: it becomes a row that is refused.
func (p SweepPayload) row(ctx context.Context, cfg Config, told Walked, organization string, l listedDomain) (source, kept []byte, err error) {
	d := l.Record
	looked := d.Status == apiclient.StatusVerified || l.Err != nil
	if d.Status == apiclient.StatusPending {
		if looked, err = told.looksAtPending(ctx, cfg.Memories, d.ID); err != nil {
			return nil, nil, err
		}
	}
	if !looked {
		return nil, nil, nil
	}
	source, err = json.Marshal(recheckRowOf(organization, l, told))
	return source, nil, err
}

func (w Walked) looksAtPending(ctx context.Context, m Memories, domain string) (bool, error) {
	if w.Pending || apiclient.CheckID("discovery_domain_id", domain) != nil {
		return w.Pending, nil // nothing can be remembered of what has no id
	}
	memory, err := m.Memory(ctx, domain)
	return memory != nil, err
}

// recheckRowOf is the row of a record as it was read. Of a record that cannot be looked
// for it says why, beside what names it, so that somebody is told.
func recheckRowOf(organization string, l listedDomain, told Walked) recheckRow {
	d := l.Record
	r := recheckRow{
		OrganizationID: organization, DiscoveryDomainID: d.ID, Domain: d.Domain, VerificationHost: d.VerificationHost, VerificationTXT: d.VerificationTXT,
		Status: string(d.Status), UseForOrganizationDiscovery: d.UseForOrganizationDiscovery, Prove: told.Pending && d.Status == apiclient.StatusPending, Tick: told.Tick, Due: told.dueOf(d.ID),
	}
	err := refusal(organization, l)
	if err == nil {
		err = cmp.Or(below(d), r.payload(Envelope{}).Validate())
	}
	if err != nil {
		return recheckRow{
			OrganizationID: organization, DiscoveryDomainID: nameIn(d.ID), Domain: nameIn(d.Domain),
			Status: nameIn(string(d.Status)), Tick: told.Tick, Refused: err.Error(),
		}
	}
	return r
}

// dueOf is when a domain is looked at: at a part of the time over which looks are
// spread that is its own. So they are spread evenly, and from one sweep to the next
// each domain has the same time, however the walk comes upon it.
func (w Walked) dueOf(domain string) int64 {
	if w.SpreadUntil <= w.Tick {
		return 0
	}
	hash := sha256.Sum256([]byte(domain))
	part, _ := bits.Mul64(binary.BigEndian.Uint64(hash[:]), uint64(w.SpreadUntil-w.Tick))
	return w.Tick + int64(part) //nolint:gosec // it is less than what it is a part of
}

// over enqueues the judging of the sweep, which waits until all looks are done.
func (p SweepPayload) over(ctx context.Context, cfg Config, job Job, told Walked) error {
	return enqueueJudge(ctx, cfg.Enqueuer, job.Envelope, told.Tick)
}

func (p SweepPayload) came(rows int64, told Walked) string {
	return fmt.Sprintf("found %d domains to check in %d organizations", rows, told.Read)
}

func enqueueJudge(ctx context.Context, e Enqueuer, of Envelope, tick int64) error {
	if err := enqueue(ctx, e, JudgePayload{Envelope: of, Tick: tick}.task()); err != nil {
		return fmt.Errorf("enqueue the evaluation of sweep %s: %w", of.Run, err)
	}
	return nil
}
