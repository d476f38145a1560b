package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Run is one bulk submission.
type Run struct {
	// ID is [A-Za-z0-9_-]{1,64}.
	ID string
	// Kind is the type of its row tasks, such as "domain:verify".
	Kind string
	// Tenant is whose budget and credentials it uses.
	Tenant string
	// Label is the submitter's own word for it; at most 200 characters are kept.
	Label string
	// Digest is the hexadecimal SHA-256 of the decompressed input, empty where
	// that is not known when the run is created.
	Digest string
	// Format is the form of the stored rows: "csv", "jsonl", or empty for rows
	// that no file held.
	Format string
	// Parent is the id of the run whose rows this one repeats, or empty.
	Parent string
	// Children are the ids of the runs that repeat rows of this one, in the order
	// in which they were begun. One that is not there was cut off before it was
	// created. Create ignores it.
	Children []string
	// Caller is who handed it in over HTTP, or empty.
	Caller string
	// Columns are the header's names as given, for CSV.
	Columns []string
	// First is the generation of the run's first tasks. Create chooses it, so that no
	// two runs have a generation in common, also where they have the same id one
	// after the other.
	First int
	// Generation is that of the tasks that were enqueued last; it is raised when the
	// run is resumed or repaired.
	Generation int
	// Floor is the least generation whose tasks are not dropped.
	Floor int
	// Sealed says that the producer is through, and Total final. Create ignores
	// it, as it does Total, Settled, Counts and EndedAt.
	Sealed bool
	// Stored is the number of rows that are stored; Create ignores it.
	Stored int64
	// Walk says that the rows are not submitted but found by a walk, and how far
	// that is; nil: they are submitted. Of it Create takes what is told alone.
	Walk *Walk
	// Total is the number of rows, bad ones included; 0 until sealed.
	Total int64
	// Settled is the number of rows of which the fate is known.
	Settled int64
	// Counts is that by outcome, without zeros.
	Counts map[string]int64
	// CreatedAt is Redis's time unless given to Create; to the millisecond, UTC.
	CreatedAt time.Time
	// EndedAt is zero until the run has ended.
	EndedAt time.Time
	// Paused says that its tasks are dropped as they come up.
	Paused bool
	// Resuming says that it is being resumed, or repaired, and that open rows may
	// still lack a task.
	Resuming bool
	// StoredAt is when rows came last; zero if none have. Where a walk finds them it
	// is when that made its last step or, once sealed, had enqueued all of them.
	StoredAt time.Time
	// Lost is the number of open rows for which no task stood at LostAt, which is
	// zero where there was none.
	Lost   int64
	LostAt time.Time
	// GiveUp is how long a token may take to appear, from CountsFrom on; 0: not said.
	GiveUp time.Duration
	// KeepFor is how long the run is remembered after its end; 0: Retention.
	KeepFor time.Duration
	// Priority is "high" or "normal", or empty: then its rows decide on its lane.
	Priority string
	// CancelledAt is zero unless the run was cancelled. Until it has ended, its
	// open rows are those that had begun.
	CancelledAt time.Time
	// Core says that the run is in [Ledger.Core]: it has no generations and no walk, and
	// its rows cannot lose their tasks. What follows is of such a run alone.
	Core bool
	// Held says that a program has stopped it, and Incomplete that Redis has lost rows of
	// it. Either stops rows from beginning, as does NotBefore until that time.
	Held, Incomplete bool
	NotBefore        time.Time
}

// Ended says whether the run is sealed and every row settled.
func (r Run) Ended() bool { return !r.EndedAt.IsZero() }

// CountsFrom is from when on GiveUp counts for tasks that are made now: from when the
// run was made or, where a walk finds its rows, not before they were found. A row may
// be found, and its token asked for, long after the run was made.
func (r Run) CountsFrom() time.Time {
	if r.Walk != nil && r.StoredAt.After(r.CreatedAt) {
		return r.StoredAt
	}
	return r.CreatedAt
}

// mostGenerations is how many generations a run has at the most: it is resumed and
// repaired less often. lua/prelude.lua knows it too.
const mostGenerations = 1_000_000

// firstGeneration returns a random multiple of mostGenerations. Lua's numbers and
// those of JSON are exact beyond it.
func firstGeneration() int { return (1 + rand.IntN(1_000_000_000)) * mostGenerations }

// Repairing says that it is being repaired, or that who did so has died.
func (r Run) Repairing() bool { return r.Resuming && r.Floor < r.Generation }

// silentAfter is how long a producer may take from one chunk of rows to the next,
// a hundred times over.
const silentAfter = 5 * time.Minute

// SilentSince is when the last rows came of a run that is still being submitted
// and of which nothing has been heard for five minutes: zero of any other.
func (r Run) SilentSince(now time.Time) time.Time {
	last := r.StoredAt
	if last.IsZero() {
		last = r.CreatedAt
	}
	if r.Sealed || r.Walk != nil || now.Sub(last) < silentAfter {
		return time.Time{}
	}
	return last
}

// Names of the hash's fields are beside their use: here, and in lua/.

func (r Run) fields() ([]any, error) {
	columns, err := json.Marshal(r.Columns)
	if err != nil {
		return nil, err
	}
	fields := []any{
		"label", quote(r.Label, maxLabel),
		"format", r.Format,
		"parent", r.Parent,
		"caller", quote(r.Caller, maxLabel),
		"columns", columns,
		"first", r.First, "generation", r.First, "floor", r.First,
		"give_up_ms", r.GiveUp.Milliseconds(),
		"priority", r.Priority,
	}
	if r.KeepFor > 0 {
		fields = append(fields, "keep_ms", r.KeepFor.Milliseconds())
	}
	if r.Walk != nil {
		fields = append(fields, "walk_step", 0, "walk_enqueued", 0, "walk_told", r.Walk.Told)
	}
	return fields, nil
}

func parseRun(id string, hash map[string]string) (Run, error) {
	r := Run{
		ID: id, Kind: hash["kind"], Tenant: hash["tenant"], Label: hash["label"], Digest: hash["digest"],
		Format: hash["format"], Parent: hash["parent"], Caller: hash["caller"], Children: append([]string(nil), strings.Fields(hash["children"])...), Sealed: hash["sealed"] == "1",
		Priority: hash["priority"],
		Paused:   hash["paused"] == "1", Resuming: hash["resuming"] != "",
	}
	if err := json.Unmarshal([]byte(hash["columns"]), &r.Columns); err != nil {
		return Run{}, fmt.Errorf("run %s: stored columns: %w", id, err)
	}
	read := numbers{hash: hash}
	r.First = int(read.int("first"))
	r.Generation = int(read.int("generation"))
	r.Floor = int(read.int("floor"))
	r.StoredAt = read.time("stored_at")
	r.Lost = read.int("lost")
	r.LostAt = read.time("lost_at")
	r.Stored = read.int("stored")
	r.Total = read.int("total")
	r.Settled = read.int("settled")
	r.CreatedAt = read.time("created_at")
	r.EndedAt = read.time("ended_at")
	r.GiveUp = time.Duration(read.int("give_up_ms")) * time.Millisecond
	r.KeepFor = time.Duration(read.int("keep_ms")) * time.Millisecond
	r.CancelledAt = read.time("cancelled_at")
	r.Walk = parseWalk(hash, &read)
	r.Counts = map[string]int64{}
	for field := range hash {
		if outcome, ok := strings.CutPrefix(field, "count:"); ok {
			r.Counts[outcome] = read.int(field)
		}
	}
	maps.DeleteFunc(r.Counts, func(_ string, n int64) bool { return n == 0 })
	if read.err != nil {
		return Run{}, fmt.Errorf("run %s: %w", id, read.err)
	}
	return r, nil
}

// numbers reads a hash's decimal fields and keeps the first error. A field that
// is not there is 0.
type numbers struct {
	hash map[string]string
	err  error
}

func (n *numbers) int(field string) int64 {
	text, ok := n.hash[field]
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("stored %s: %w", field, err)
	}
	return v
}

func (n *numbers) time(field string) time.Time { return fromMillis(n.int(field)) }

// fromMillis reads Unix milliseconds; 0 is the zero time.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// toMillis is its inverse.
func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
