package ledger

import (
	"context"
	"encoding/json"
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
	// Control is the run's first. Cancelled must be false.
	Control
	// Scan is the progress of a scan before its first step, in its own form, at most 16 KiB; nil: the
	// rows are submitted. The rows of a run with a scan are found by executions of the scan's row,
	// whose first content this is: see [Ledger.AddStep]. The run is committed without rows when it
	// is created, and grows. Scans of different requests have different digests.
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
	defer wrap(&err, "run %s: create", n.ID)
	if err := l.rdb.SAdd(ctx, tenantsKey, string(n.Tenant)).Err(); err != nil {
		return Run{}, false, noMemory(err)
	}
	// An id is not used twice. If two tenants use one at the same moment, each has its run.
	if other, err := l.Get(ctx, n.ID); err == nil && other.Tenant != n.Tenant {
		return other, false, n.Compare(other)
	} else if err != nil && !isNotFound(err) {
		return Run{}, false, err
	}
	own := Run{ID: n.ID, Incarnation: Incarnation(random()), Tenant: n.Tenant}
	args := []any{string(n.Tenant), string(n.Kind), about, n.flags(), toMillis(n.NotBefore), flag(n.Single)}
	keys := runKeys(own)
	if n.Scan != nil {
		row, err := packChunk([][]byte{n.Scan})
		if err != nil {
			return Run{}, false, err
		}
		args = append(args, n.Scan, row)
		keys = append(keys, segmentKey(own.segment(ScanSegment), "head"), segmentKey(own.segment(ScanSegment), "chunks"))
	}
	for {
		a, err := l.do(ctx, createScript, keys, append([]any{own.entry()}, args...))
		if err != nil {
			return Run{}, false, err
		}
		if run, err = parseRun(n.ID, a.hash(1)); err != nil {
			return Run{}, false, err
		}
		if run.DeletingAt.IsZero() {
			// The status does not suffice: the client repeats a script whose answer was lost.
			return run, run.Incarnation == own.Incarnation, n.Compare(run)
		}
		// Its deletion may have been interrupted.
		run.Parent = "" // the new run may have been adopted by it already
		if err := l.discard(ctx, run, max(run.Reserved, run.Segments)); err != nil {
			return Run{}, false, err
		}
	}
}

func (n NewRun) validate() error {
	for _, err := range []error{n.ID.Validate(), n.Tenant.Validate(), n.Kind.Validate()} {
		if err != nil {
			return err
		}
	}
	if n.Cancelled {
		return fmt.Errorf("run %s: create: want a run that is not cancelled", n.ID)
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
