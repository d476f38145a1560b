package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"orgops/internal/untrusted"
)

// maxDescription bounds a description as JSON, in bytes: lists read many headers at once.
const maxDescription = 16 << 10

// NewRun is a run to be created.
type NewRun struct {
	ID     RunID
	Tenant Tenant
	Kind   Kind
	Description
	// Control is the run's first. Cancelled and Incomplete must be false.
	Control
	// Scan is the progress of a scan before its first step, in the scanner's own form, at most
	// 16 KiB; nil: the rows are submitted. The rows of a run with a scan are found by its
	// steps: see [Ledger.AddStep]. It is committed without rows when it is created, and grows.
	// Scans of different requests have different digests.
	Scan []byte
}

// Create creates a staged run, or returns the run that exists under this id with the
// same kind, tenant, digest and origin, so that a producer that was killed can continue. If one
// of these differs the error is a [MismatchError].
func (l *Ledger) Create(ctx context.Context, n NewRun) (run Run, created bool, err error) {
	n.Label = truncated(n.Label)
	if err := n.validate(); err != nil {
		return Run{}, false, err
	}
	about, err := json.Marshal(n.Description)
	if err == nil && len(about) > maxDescription {
		err = fmt.Errorf("description of %d bytes: want at most %d", len(about), maxDescription)
	}
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: create: %w", n.ID, err)
	}
	for {
		run, created, err = l.create(ctx, n, about)
		if errors.Is(err, errDiscarded) { // and its deletion may have been interrupted
			run.Parent = "" // the new run may have been adopted by it already
			err = l.discard(ctx, run)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return Run{}, false, fmt.Errorf("run %s: create: %w", n.ID, err)
		}
		return run, created, nil
	}
}

// errDiscarded says that the run of an id is being deleted.
var errDiscarded = errors.New("the former run of that id is being deleted")

// create adds the run to its tenant's lists and then stores its header. In this order an
// interruption cannot leave a header that is not listed.
func (l *Ledger) create(ctx context.Context, n NewRun, about []byte) (run Run, created bool, err error) {
	if err := l.rdb.SAdd(ctx, tenantsKey, string(n.Tenant)).Err(); err != nil {
		return Run{}, false, noMemory(err)
	}
	own := Run{ID: n.ID, Incarnation: n.incarnation(), Tenant: n.Tenant, Description: n.Description}
	if err := l.enlist(ctx, own); err != nil {
		return Run{}, false, err
	}
	args := []any{string(n.Tenant), string(n.Kind), about, n.flags(), toMillis(n.NotBefore)}
	if n.Scan != nil {
		args = append(args, n.Scan)
	}
	a, err := l.onHeader(ctx, createScript, own, args...)
	if err == nil {
		run, err = parseRun(n.ID, a.hash(1))
	}
	if err != nil {
		return Run{}, false, err
	}
	// The status does not suffice: the client repeats a script whose answer was lost.
	created = run.Incarnation == own.Incarnation
	if !created {
		if err := l.unlist(ctx, own); err != nil {
			return Run{}, false, err
		}
		if !run.DeletingAt.IsZero() {
			return run, false, errDiscarded
		}
	}
	// Again, since Sweep may have trimmed the entry before there was a header, or Redis
	// may have lost it. A run in the trash has a header if a node of Redis went back.
	err = l.enlist(ctx, run)
	if isNotFound(err) {
		return run, false, errDiscarded
	}
	if err == nil && !created {
		err = n.Compare(run)
	}
	return run, created, err
}

// incarnation returns the incarnation of a new run. A run of one segment has nothing to spread.
func (n NewRun) incarnation() Incarnation {
	if n.Single {
		return Incarnation(random())
	}
	return newIncarnation()
}

func (n NewRun) validate() error {
	for _, err := range []error{n.ID.Validate(), n.Tenant.Validate(), n.Kind.Validate()} {
		if err != nil {
			return err
		}
	}
	if n.Cancelled || n.Incomplete {
		return fmt.Errorf("run %s: create: want neither cancelled nor incomplete", n.ID)
	}
	if len(n.Scan) > maxProgress {
		return fmt.Errorf("run %s: create: progress of %d bytes: want at most %d", n.ID, len(n.Scan), maxProgress)
	}
	if n.KeepFor < 0 || n.GiveUp < 0 {
		return fmt.Errorf("run %s: create: want no negative duration", n.ID)
	}
	return nil
}

// Compare returns a [MismatchError] if the run is not the one to be created.
func (n NewRun) Compare(run Run) error {
	for _, m := range []struct {
		member     Member
		have, want string
	}{
		{MemberTenant, string(run.Tenant), string(n.Tenant)},
		{MemberKind, string(run.Kind), string(n.Kind)},
		{MemberContent, run.Digest, n.Digest},
		{MemberOrigin, origin(run.Scan != nil), origin(n.Scan != nil)},
	} {
		if m.have != m.want {
			return &MismatchError{Run: n.ID, Member: m.member, Have: m.have, Want: m.want}
		}
	}
	return nil
}

// origin names where the rows of a run come from.
func origin(scan bool) string {
	if scan {
		return "a scan"
	}
	return "a submission"
}

// truncated returns at most maxLabel characters of a valid text.
func truncated(text string) string {
	return untrusted.Cut(strings.ToValidUTF8(text, "\uFFFD"), maxLabel)
}
