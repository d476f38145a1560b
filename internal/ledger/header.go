package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

// onHeader runs a script on the header of a run, whose entry in the lists is its first argument.
func (l *Ledger) onHeader(ctx context.Context, s *redis.Script, run Run, args ...any) (answer, error) {
	return l.do(ctx, s, runKeys(run), append([]any{run.entry()}, args...))
}

// runKeys returns the keys of a script of a header: see runParts.
func runKeys(run Run) []string {
	return append(headerKeys(run.Tenant, run.ID), tenantKeys(run.Tenant)...)
}

// Run returns a run of a tenant, or [ErrNotFound].
func (l *Ledger) Run(ctx context.Context, t Tenant, id RunID) (Run, error) {
	hash, err := l.header(ctx, t, id)
	if err != nil {
		return Run{}, err
	}
	return parseRun(t, id, hash)
}

// header returns the header of a run that is not being deleted, or [ErrNotFound].
func (l *Ledger) header(ctx context.Context, t Tenant, id RunID) (map[string]string, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if err := id.Validate(); err != nil {
		return nil, err
	}
	hash, err := l.rdb.HGetAll(ctx, headerKey(t, id, "header")).Result()
	if err != nil {
		return nil, fmt.Errorf("run %s: read: %w", id, err)
	}
	if !exists(hash) {
		return nil, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return hash, nil
}

// exists reports whether a header is that of a run which is not being deleted.
func exists(hash map[string]string) bool { return len(hash) > 0 && hash["deleting_at"] == "" }

// Get returns the run of that id of a tenant, or of whatever tenant if none is named, or
// [ErrNotFound]; an [AmbiguousError] if several tenants have one. It takes two round trips.
func (l *Ledger) Get(ctx context.Context, t Tenant, id RunID) (Run, error) {
	if t != "" {
		return l.Run(ctx, t, id)
	}

	// Without a tenant the headers of all are read, in one round trip.
	if err := id.Validate(); err != nil {
		return Run{}, err
	}
	tenants, err := l.Tenants(ctx)
	if err != nil {
		return Run{}, fmt.Errorf("run %s: read: %w", id, err)
	}
	hashes := make([]*redis.MapStringStringCmd, len(tenants))
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, t := range tenants {
			hashes[i] = p.HGetAll(ctx, headerKey(t, id, "header"))
		}
		return nil
	})
	if err != nil {
		return Run{}, fmt.Errorf("run %s: read: %w", id, err)
	}

	// One of them has the run, or it is not clear which is meant.
	var found map[string]string
	var having []Tenant
	for i, hash := range hashes {
		if exists(hash.Val()) {
			found = hash.Val()
			having = append(having, tenants[i])
		}
	}
	switch len(having) {
	case 0:
		return Run{}, fmt.Errorf("run %s: %w", id, ErrNotFound)
	case 1:
		return parseRun(having[0], id, found)
	}
	return Run{}, &AmbiguousError{Run: id, Tenants: having}
}

// same reads a run again.
func (l *Ledger) same(ctx context.Context, run Run) (Run, error) {
	now, err := l.Run(ctx, run.Tenant, run.ID)
	if err == nil && now.Incarnation != run.Incarnation {
		err = ErrNotFound
	}
	return now, err
}

func parseRun(t Tenant, id RunID, hash map[string]string) (Run, error) {
	read := numbers{hash: hash}
	r := Run{
		ID: id, Incarnation: Incarnation(hash["inc"]), Tenant: t, Kind: Kind(hash["kind"]),
		Control:  parseControl(hash["flags"], read.int("not_before")),
		Reserved: int(read.int("staged")), Segments: int(read.int("segments")), Rows: read.int("rows"),
		CreatedAt: read.time("created_at"), StagedAt: read.time("staged_at"),
		CommittedAt: read.time("committed_at"), CancelledAt: read.time("cancelled_at"), EndedAt: read.time("ended_at"),
		FinishedAt: read.time("finished_at"), DeletingAt: read.time("deleting_at"),
		Counts: Counts{},
	}

	// Convert the optional fields, and those with a format of their own.
	r.childEntries = strings.Fields(hash["children"])
	r.Children = childrenOf(r.childEntries)
	if r.Cancelled {
		r.Paused = false // the same request is compared with the time from which it was to start
	}
	r.Growing = hash["growing"] != ""
	if progress, ok := hash["scan"]; ok {
		r.Scan = &Scan{
			Progress: []byte(progress), Note: []byte(hash["scan_note"]), NextAt: read.time("scan_next"),
		}
	}
	err := read.err
	if err == nil {
		err = json.Unmarshal([]byte(joinPieces(hash, "about")), &r.Description)
		r.Label = untrusted.Plain(r.Label, maxLabel)
		r.Caller = untrusted.Plain(r.Caller, maxLabel)
	}
	if why, ok := hash["stuck"]; ok {
		r.Stuck = &Stuck{untrusted.Plain(why, maxDetail), read.time("stuck_since"), read.time("stuck_at")}
	}
	if sum, ok := hash["sum"]; ok {
		r.Digest = singleDigest(sum)
	}

	// The numbers have to fit together: others would make a reader look for segments without end.
	if err == nil {
		r.Counts, err = countsOf(hash)
	}
	if err == nil {
		err = r.segment(0).Validate()
	}
	if err == nil {
		err = checkSegments("staged", r.Reserved)
	}
	if err == nil {
		err = checkSegments("segments", r.Segments)
	}
	if err != nil {
		return Run{}, fmt.Errorf("run %s: stored header: %w", id, err)
	}
	return r, nil
}

// singleDigest returns the digest of a single row from its stored sum.
func singleDigest(sum string) string { return fmt.Sprintf("%x", sum) }

// A header has one field for most texts. Those of a single row are in pieces of at most pieceBytes,
// named text, text.1, text.2 and so on: Redis stores a hash without larger values in a third of the
// memory. Of a text of more than piecedBytes one field less would make no difference.
const (
	pieceBytes  = 64
	piecedBytes = 2 << 10
)

// pieces returns the fields of a text, alternating with their values.
func pieces(name string, text []byte) []any {
	if len(text) > piecedBytes {
		return []any{name, text}
	}
	fields := []any{name, text[:min(pieceBytes, len(text))]}
	for n, at := 1, pieceBytes; at < len(text); n, at = n+1, at+pieceBytes {
		fields = append(fields, pieceName(name, n), text[at:min(at+pieceBytes, len(text))])
	}
	return fields
}

// joinPieces returns a text of a header.
func joinPieces(hash map[string]string, name string) string {
	text := hash[name]
	for n := 1; ; n++ {
		piece, ok := hash[pieceName(name, n)]
		if !ok {
			return text
		}
		text += piece
	}
}

func pieceName(name string, n int) string { return name + "." + strconv.Itoa(n) }

// checkSegments returns an error unless a run can have so many segments.
func checkSegments(field string, n int) error {
	if n < 0 || n > MaxSegments {
		return fmt.Errorf("%s: %d: want 0 to %d", field, n, MaxSegments)
	}
	return nil
}

// countsOf returns the counters of a header, or of the head of a segment.
func countsOf(hash map[string]string) (Counts, error) {
	counts := Counts{}
	read := numbers{hash: hash}
	for field := range hash {
		if outcome, ok := strings.CutPrefix(field, "n:"); ok && hash[field] != "0" {
			counts[Outcome(outcome)] = read.int(field)
		}
	}
	return counts, read.err
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
