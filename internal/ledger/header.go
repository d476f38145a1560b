package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// onHeader runs a script on the header of a run, whose incarnation is its first argument.
func (l *Ledger) onHeader(ctx context.Context, s *redis.Script, run Run, args ...any) (answer, error) {
	return l.do(ctx, s, headerKeys(run.ID), append([]any{string(run.Incarnation)}, args...))
}

// Get returns a run, or [ErrNotFound].
func (l *Ledger) Get(ctx context.Context, id RunID) (Run, error) {
	hash, err := l.header(ctx, id)
	if err != nil {
		return Run{}, err
	}
	return parseRun(id, hash)
}

// header returns the header of a run that is not being deleted, or [ErrNotFound].
func (l *Ledger) header(ctx context.Context, id RunID) (map[string]string, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	hash, err := l.rdb.HGetAll(ctx, headerKeys(id)[0]).Result()
	if err != nil {
		return nil, fmt.Errorf("run %s: read: %w", id, err)
	}
	if len(hash) == 0 || hash["deleting_at"] != "" {
		return nil, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return hash, nil
}

// same reads a run again.
func (l *Ledger) same(ctx context.Context, run Run) (Run, error) {
	now, err := l.Get(ctx, run.ID)
	if err == nil && now.Incarnation != run.Incarnation {
		err = ErrNotFound
	}
	return now, err
}

func parseRun(id RunID, hash map[string]string) (Run, error) {
	read := numbers{hash: hash}
	r := Run{
		ID: id, Incarnation: Incarnation(hash["inc"]), Tenant: Tenant(hash["tenant"]), Kind: Kind(hash["kind"]),
		Control:  parseControl(hash["flags"], read.int("not_before")),
		Reserved: int(read.int("reserved")), Segments: int(read.int("segments")), Rows: read.int("rows"),
		CreatedAt: read.time("created_at"), StagedAt: read.time("staged_at"),
		CommittedAt: read.time("committed_at"), CancelledAt: read.time("cancelled_at"), EndedAt: read.time("ended_at"),
		FinishedAt: read.time("finished_at"), DeletingAt: read.time("deleting_at"),
		Children: parseRuns(hash["children"]), version: read.int("v"),
	}
	if r.base = read.int("base"); r.base == 0 {
		r.base = r.version
	}
	r.Growing = !r.CommittedAt.IsZero() && hash["sealed"] == ""
	if progress, ok := hash["scan"]; ok {
		r.Scan = &Scan{
			Step: read.int("scan_step"), Progress: []byte(progress), Note: hash["scan_note"], NextAt: read.time("scan_next"),
			Ended: hash["scan_ended"] != "",
		}
	}
	err := read.err
	if err == nil {
		err = json.Unmarshal([]byte(hash["about"]), &r.Description)
	}
	if err == nil {
		r.Counts, err = parseCounts(hash["counts"])
	}
	if err == nil {
		err = cmp.Or(r.Tenant.Validate(), r.segment(0).Validate(), checkSegments("reserved", r.Reserved),
			checkSegments("segments", r.Segments))
	}
	if err != nil {
		return Run{}, fmt.Errorf("run %s: stored header: %w", id, err)
	}
	return r, nil
}

// checkSegments returns an error unless a run can have so many segments.
func checkSegments(field string, n int) error {
	if n < 0 || n > MaxSegments {
		return fmt.Errorf("%s: %d: want 0 to %d", field, n, MaxSegments)
	}
	return nil
}

func parseCounts(text string) (Counts, error) {
	c := Counts{}
	for part := range strings.FieldsSeq(text) {
		outcome, digits, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("count of %s: %w", quoted(outcome), err)
		}
		c[Outcome(outcome)] = n
	}
	return c, nil
}

// numbers reads a hash's decimal fields and keeps the first error. A field that does not
// exist is 0.
type numbers struct {
	hash map[string]string
	err  error
}

func (n *numbers) int(field string) int64 {
	text := n.hash[field]
	if text == "" {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("%s: %w", field, err)
	}
	return v
}

func (n *numbers) time(field string) time.Time { return fromMillis(n.int(field)) }

func parseRuns(stored string) (ids []RunID) {
	for id := range strings.FieldsSeq(stored) {
		ids = append(ids, RunID(id))
	}
	return ids
}

// closeSegments sets the bits of segments. It reports whether the run ended by this call,
// also if there are none, since a commit may have been cut short.
func (l *Ledger) closeSegments(ctx context.Context, run Run, closed []int) (ended bool, err error) {
	for {
		page := closed[:min(scriptNumbers, len(closed))]
		a, err := l.onHeader(ctx, closeScript, run, ints(page)...)
		if err != nil {
			return false, fmt.Errorf("close segments: %w", err)
		}
		ended = ended || a.status() == statusConcluded
		if closed = closed[len(page):]; len(closed) == 0 {
			return ended, nil
		}
	}
}

// closedBits returns the bitmap of the segments that the header has as closed.
func (l *Ledger) closedBits(ctx context.Context, run Run) (string, error) {
	bits, err := l.rdb.Get(ctx, headerKeys(run.ID)[1]).Result()
	if err != nil && !absent(err) {
		return "", fmt.Errorf("read closed segments: %w", err)
	}
	return bits, nil
}

// reopenSegments clears the bits of open segments that the header has as closed: their
// Redis has lost how rows were settled.
func (l *Ledger) reopenSegments(ctx context.Context, run Run, numbers []int) error {
	if len(numbers) == 0 {
		return nil
	}
	// First the list: once the header has no end, the run must be found as open.
	if _, err := l.onTenant(ctx, tenantReopenScript, run.Tenant, run.entry()); err != nil {
		return err
	}
	for page := range slices.Chunk(numbers, scriptNumbers) {
		if _, err := l.onHeader(ctx, reopenScript, run, ints(page)...); err != nil {
			return err
		}
	}
	return nil
}
