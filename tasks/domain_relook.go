package tasks

// A look between two sweeps at a domain with which something is the matter: its token
// is gone, or we have taken something away from it. It may only clear: what it does
// not see counts nothing. So a second run of it does no harm, and one that is lost
// leaves all to the next sweep.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/dnscheck"
)

const (
	// betweenLooks is how often such a domain is looked at between two sweeps.
	betweenLooks = time.Hour
	// longestBetween is how long looks go on where no other sweep comes.
	longestBetween = 8 * 24 * time.Hour
)

// relook is the task of the looks that follow the sweep's own at that time.
func (p RecheckPayload) relook(now time.Time) spec {
	between := p
	between.Envelope = Envelope{V: Version, Tenant: p.Tenant, Run: p.Run, CreatedAt: now.UTC()}
	return spec{
		typ: TypeRelook, payload: between, id: scheduledTaskID(TypeRelook, p.Tenant, p.DiscoveryDomainID, p.Tick),
		queue: RecheckQueue(p.Tenant), after: wholeSeconds(spread(betweenLooks)),
	}
}

type relook struct {
	cfg        Config
	remembered remembered
}

func (h *relook) process(ctx context.Context, _ Job, p RecheckPayload) (Result, error) {
	m, _, err := h.remembered.read(ctx, p.DiscoveryDomainID)
	if err != nil {
		return Result{}, err
	}
	if why := p.over(m, h.cfg.Now()); why != "" {
		return Result{Outcome: Unchanged, Detail: why}, nil
	}
	verdict, err := h.cfg.DNS.Look(ctx, p.VerificationHost, p.VerificationTXT)
	if err != nil {
		return Result{}, err
	}
	if verdict.State != dnscheck.Present {
		return Result{}, notYet(verdict.State.String()+": "+verdict.Sentence(), wholeSeconds(spread(betweenLooks)))
	}
	s := p.sighted(verdict, h.cfg.Now())
	s.between = true
	if m, err = h.remembered.change(ctx, p.DiscoveryDomainID, func(m Memory) (Memory, []string) { return m.seen(s) }); err != nil {
		return Result{}, err
	}
	switch {
	case m.Taken == nil && m.Acting == nil:
		return Result{Outcome: Done, Detail: "the token is there again"}, nil
	case m.Taken == nil, h.cfg.Now().Sub(m.Taken.landedAt()) < young: // reads may be behind
		return Result{}, notYet("the token is there again; waiting for the result of an action on the domain", wholeSeconds(young))
	}
	if m.tookStatus() && p.knownFlag(m) == nil {
		return Result{}, h.withhold(ctx, p)
	}
	if err := h.giveBack(ctx, p, m); err != nil {
		return Result{}, err
	}
	// It goes on until that is done, which needs a proof, and more than one look may.
	return Result{}, notYet("the token is there again; the domain is restored once it is proven", wholeSeconds(spread(betweenLooks)))
}

// over says why the domain is not looked at any more before the next sweep; empty: it
// is.
func (p RecheckPayload) over(m Memory, now time.Time) string {
	switch {
	case m.Tick != p.Tick:
		return "another sweep has checked it since"
	case m.Token != tokenOf(p.VerificationHost, p.VerificationTXT):
		return "host or token have changed"
	case m.Absence == nil && m.Taken == nil && m.Acting == nil:
		return "nothing is wrong any more"
	case now.Sub(p.CreatedAt) > longestBetween:
		return "waiting for the next sweep"
	}
	return ""
}

// withhold writes down that the status is not given back while the flag is not known: a
// PATCH of the status alone leaves the flag to the platform's default.
func (h *relook) withhold(ctx context.Context, p RecheckPayload) error {
	why := "the record has no use_for_organization_discovery"
	_, err := h.remembered.change(ctx, p.DiscoveryDomainID, func(m Memory) (Memory, []string) {
		m = m.clone()
		m.FlagOmitted = true
		if m.Withheld() != "" {
			why = m.Withheld()
			m.noteOnce(h.cfg.Now(), eventWithheld, why)
		}
		return m, nil
	})
	if err != nil {
		return err
	}
	return notYet("the token is there again; not restored: "+why, wholeSeconds(spread(betweenLooks)))
}

// giveBack has given back what was taken away. To set a domain to verified takes a
// proof, and a row: it is submitted like one by itself, with the flag for a record that
// omits it.
func (h *relook) giveBack(ctx context.Context, p RecheckPayload, m Memory) error {
	var err error
	if m.tookStatus() {
		err = h.submitRow(ctx, p, m)
	} else {
		err = enqueue(ctx, h.cfg.Enqueuer, p.giveBack(h.cfg.Now()))
	}
	if err != nil {
		return fmt.Errorf("enqueue its restoration: %w", err)
	}
	return nil
}

// submitRow submits the row that verifies the domain again. If the flag has changed since
// this hour's row was submitted, the next hour's row has it.
func (h *relook) submitRow(ctx context.Context, p RecheckPayload, m Memory) error {
	err := h.cfg.Restore(ctx, Restoration{
		Run: p.restoringRun(h.cfg.Now()), Tenant: p.Tenant, OrganizationID: p.OrganizationID, DiscoveryDomainID: p.DiscoveryDomainID,
		Flag: p.knownFlag(m), GiveUp: betweenLooks,
	})
	var mismatch interface{ Mismatch() bool }
	if errors.As(err, &mismatch) && mismatch.Mismatch() {
		return nil
	}
	return err
}

// restoringRun names the run of the one row that verifies the domain again: another one
// each hour, as one that has come to nothing is over.
func (p RecheckPayload) restoringRun(now time.Time) string {
	return fmt.Sprintf("%s%d%s", restoringPrefix, now.Truncate(time.Hour).Unix(), restoringSuffix(p.DiscoveryDomainID))
}

const restoringPrefix = "restore-"

func restoringSuffix(domain string) string {
	sum := sha256.Sum256([]byte(domain))
	return fmt.Sprintf("-%x", sum[:8])
}

// restores reports whether the run is that of the one row that verifies the domain again.
func restores(run, domain string) bool {
	return strings.HasPrefix(run, restoringPrefix) && strings.HasSuffix(run, restoringSuffix(domain))
}
