package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

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

// Create creates a staged run, or returns the run of the tenant that exists under this id with the
// same kind, digest and origin, so that a producer that was killed can continue. If one
// of these differs the error is a [MismatchError].
func (l *Ledger) Create(ctx context.Context, n NewRun) (run Run, created bool, err error) {
	fields, err := n.fields()
	if err != nil {
		return Run{}, false, err
	}
	var scan []byte // its row
	if n.Scan != nil {
		if scan, err = packChunk([][]byte{n.Scan}); err != nil {
			return Run{}, false, err
		}
	}
	return l.create(ctx, n, createScript, Incarnation(random()), append([]any{flag(n.Single), n.Scan, scan}, fields...))
}

// create creates a run by a script, unless one of its id exists.
func (l *Ledger) create(ctx context.Context, n NewRun, script *redis.Script, inc Incarnation,
	args []any) (run Run, created bool, err error) {
	defer wrap(&err, "run %s: create", n.ID)
	if err := l.rdb.SAdd(ctx, tenantsKey, string(n.Tenant)).Err(); err != nil {
		return Run{}, false, noMemory(err)
	}
	own := Run{ID: n.ID, Incarnation: inc, Tenant: n.Tenant}
	row := own.segment(ScanSegment) // that of a scan
	keys := append(runKeys(own), tenantKey(n.Tenant, callerPart(callerSum(n.Caller))),
		segmentKey(row, "head"), segmentKey(row, "chunks"))
	for {
		a, err := l.do(ctx, script, keys, append([]any{own.entry()}, args...))
		if err != nil {
			return Run{}, false, err
		}
		if run, err = parseRun(n.Tenant, n.ID, a.hash(1)); err != nil {
			return Run{}, false, err
		}
		if run.DeletingAt.IsZero() {
			// The status does not suffice: the client repeats a script whose answer was lost.
			created = run.Incarnation == inc
			err = n.Compare(run)
			if err == nil && !run.Staged() {
				_ = l.Wake(ctx, run.Tenant) // else the next poll finds the row
			}
			return run, created, err
		}
		// Its deletion may have been interrupted.
		if err := l.discard(ctx, run, max(run.Reserved, run.Segments)); err != nil {
			return Run{}, false, err
		}
	}
}

// fields returns the fields of the header that do not change, alternating with their values.
func (n *NewRun) fields() ([]any, error) {
	n.Label = truncated(n.Label)
	if err := n.validate(); err != nil {
		return nil, err
	}
	about, err := json.Marshal(n.Description)
	if err == nil && len(about) > maxDescription {
		err = fmt.Errorf("description of %d bytes: want at most %d", len(about), maxDescription)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: create: %w", n.ID, err)
	}
	fields := []any{"kind", string(n.Kind), "flags", n.flags(),
		"not_before", toMillis(n.NotBefore)}
	if n.Parent != "" {
		fields = append(fields, "parent", string(n.Parent))
	}
	if n.Caller != "" && !n.Single {
		fields = append(fields, "by", callerSum(n.Caller))
	}
	return append(fields, pieces("about", about)...), nil
}

func (n NewRun) validate() error {
	if err := n.ID.Validate(); err != nil {
		return err
	}
	if err := n.Tenant.Validate(); err != nil {
		return err
	}
	if err := n.Kind.Validate(); err != nil {
		return err
	}
	switch {
	case n.Cancelled:
		return fmt.Errorf("run %s: create: want a run that is not cancelled", n.ID)
	case len(n.Scan) > maxProgress:
		return fmt.Errorf("run %s: create: progress of %d bytes: want at most %d", n.ID, len(n.Scan), maxProgress)
	case n.KeepFor < 0 || n.GiveUp < 0:
		return fmt.Errorf("run %s: create: want no negative duration", n.ID)
	case n.Max < 0:
		return fmt.Errorf("run %s: create: want no negative max", n.ID)
	}
	return nil
}

// Compare returns a [MismatchError] if the run is not the one to be created.
func (n NewRun) Compare(run Run) error {
	for _, m := range []struct {
		member     Member
		have, want string
	}{
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
