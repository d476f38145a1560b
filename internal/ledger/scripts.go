package ledger

import (
	"context"
	"embed"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

const (
	// scriptRows is the largest number of rows, or of their blocks, that one script writes or
	// reads. To write a row takes up to 25 µs, so that a script blocks Redis for 3 ms.
	scriptRows = 128
	// scriptBytes bounds the bytes that one script stores, and is the stored size from which on
	// it reads no more: that takes Redis 1 ms.
	scriptBytes = 128 << 10
	// scriptNumbers is the largest number of due times, bits or segments that one script
	// writes or reads: it then takes a millisecond. Lua's unpack takes fewer than 8,000.
	scriptNumbers = 1000
	// releaseRows is the largest number of rows that are released at once. To release a row
	// takes 9 µs, so that this blocks Redis for 2 ms.
	releaseRows = 250
	// releaseBytes bounds the stored content of the rows that are released at once. 250 rows
	// of two ids, each of another chunk, have half of that.
	releaseBytes = 512 << 10
)

const (
	// takenFor is how long due segments are those of the dispatcher that has read them: when one
	// stops, its successor finds them after that.
	takenFor = 10 * time.Second
	// inspectEvery is how often the dispatcher inspects a segment that has rows in progress.
	inspectEvery = time.Minute
	// silentFleet is the time without any renewal after which Redis counts as having been
	// away.
	silentFleet = 2 * RenewEvery
	// clockJump is the longest time between two calls of [Ledger.DeleteOld] that counts for the
	// age of runs. If it is longer, Redis' clock jumped, or Redis or the dispatchers were away.
	clockJump = time.Hour
	// clockMargin is by how much Redis' clock may go back without making rows due that
	// wait for [MaxWait] or [MaxDue].
	clockMargin = time.Hour
	// awayAfter is how long after its last inspection a segment with rows in progress was
	// not inspected because the dispatcher was away, or because Redis' clock has jumped.
	awayAfter = 5 * time.Minute
	// StuckFor is how long after the last call of [Ledger.NoteStuck] a run counts as stuck. Its
	// callers try at least once a minute.
	StuckFor = 5 * time.Minute
	// endAgain is when the follow-ups of a run's end are tried again that have failed.
	endAgain = time.Minute
)

// atOnce is subtracted from the times of the index that mean "at once", in ms: they are
// then negative until 2109.
const atOnce = 1 << 42

// The scripts, by the keys that they take. Each touches one slot of a Cluster.
var (
	createScript   = headerScript("create")
	submitScript   = headerScript("submit")
	writerScript   = headerScript("writer")
	commitScript   = headerScript("commit")
	controlScript  = headerScript("control")
	childrenScript = headerScript("children")
	finishScript   = headerScript("finish")
	deleteScript   = headerScript("delete")
	unlinkScript   = headerScript("unlink")
	stuckScript    = headerScript("stuck")
	abandonScript  = headerScript("abandon")

	stageScript    = segmentScript("stage")
	resultsScript  = segmentScript("stage_results")
	appendScript   = segmentScript("append")
	stepScript     = segmentScript("step")
	releaseScript  = segmentScript("release", "report")
	beginScript    = segmentScript("begin")
	endScript      = segmentScript("end", "named")
	giveBackScript = segmentScript("give_back")
	dismissScript  = segmentScript("dismiss")
	makeDueScript  = segmentScript("make_due")
	reclaimScript  = segmentScript("reclaim")
	intendScript   = segmentScript("intend")
	rowsScript     = segmentScript("rows")
	claimScript    = segmentScript("claim")

	clockScript  = tenantScript("clock")
	takeScript   = tenantScript("take")
	recallScript = tenantScript("recall")

	renewScript    = sessionsScriptOf("renew")
	deadScript     = sessionsScriptOf("dead")
	sessionsScript = sessionsScriptOf("list")
)

// The keys of the scripts of a header are its own and those of its tenant's lists, and the scripts
// of a segment have seven keys of its run and tenant behind its own.
var (
	runParts  = slices.Concat(headerParts, tenantParts)
	rowsParts = slices.Concat(segmentParts, []string{"header", "sums", "due", "finishing", "names", "ids",
		"sessions"})
)

func headerScript(name string) *redis.Script {
	return newScript("header_"+name, runParts, "index", "steady", "header")
}

// segmentScript returns a script of a segment that uses functions of other files.
func segmentScript(name string, of ...string) *redis.Script {
	return newScript("segment_"+name, rowsParts, append([]string{"index", "segment"}, of...)...)
}

func tenantScript(name string) *redis.Script {
	return newScript("tenant_"+name, tenantParts, "index", "steady")
}

func sessionsScriptOf(name string) *redis.Script {
	return newScript("sessions_"+name, sessionParts, "sessions")
}

// limits are the constants that the scripts share with this package, by their names in Lua. Times
// are in milliseconds.
var limits = []struct {
	name  string
	value int64
}{
	// When a row is due again.
	{"release_ms", ReleaseTimeout.Milliseconds()},
	{"execution_ms", ExecutionLimit.Milliseconds()},
	{"wait_ms", MaxWait.Milliseconds()},
	{"ahead_ms", (MaxWait + clockMargin).Milliseconds()},
	{"due_ms", (MaxDue + clockMargin).Milliseconds()},
	{"suspected_from", SuspectedFrom},

	// When a segment is inspected, and the end of a run tried again.
	{"inspect_ms", inspectEvery.Milliseconds()},
	{"taken_ms", takenFor.Milliseconds()},
	{"away_ms", awayAfter.Milliseconds()},
	{"at_once", atOnce},
	{"stuck_ms", StuckFor.Milliseconds()},
	{"end_again_ms", endAgain.Milliseconds()},

	// Sessions, and jumps of Redis' clock.
	{"dead_ms", DeadAfter.Milliseconds()},
	{"gap_ms", silentFleet.Milliseconds()},
	{"jump_ms", clockJump.Milliseconds()},

	// Sizes, and numbers of keys.
	{"page_bytes", scriptBytes},
	{"release_bytes", releaseBytes},
	{"release_rows", releaseRows},
	{"scan_segment", ScanSegment},
	{"segment_keys", int64(len(segmentParts))},
	{"run_keys", int64(len(runParts))},
}

// shared returns the text that scripts have in common: the names of their keys, which are those of
// the last parts of these, the limits, and functions of other files.
func shared(parts []string, of ...string) string {
	texts := []string{"local " + strings.Join(parts, ", ") + " = unpack(KEYS)\n"}
	for _, limit := range limits {
		texts = append(texts, fmt.Sprintf("local %s = %d\n", limit.name, limit.value))
	}
	texts = append(texts, source("clock"))
	for _, file := range of {
		texts = append(texts, source(file))
	}
	return strings.Join(texts, "")
}

// readOnly are the scripts that write nothing, whose users may lack the right to write.
var readOnly = []string{"segment_rows", "sessions_dead", "sessions_list"}

// writeOnce are scripts that write one thing of each row, which cannot stay half-done.
var writeOnce = []string{"segment_intend"}

// newScript returns the script of that name behind the text that it shares with others. It
// writes nothing unless the user may run all of its commands: Redis undoes nothing of a
// script that fails at a later command, and a right that is withdrawn while rows are
// executed would leave rows in none of the sets, or counted wrongly. Redis 6 and
// the embedded Redis have no function for that.
func newScript(name string, parts []string, of ...string) *redis.Script {
	text := shared(parts, of...) + source(name)
	if slices.Contains(slices.Concat(readOnly, writeOnce), name) {
		return redis.NewScript(text)
	}
	quoted := "'" + strings.Join(commandsOf(text), "', '") + "'"
	// The arguments are as many as these commands have at least: Redis searches them for keys.
	return redis.NewScript(fmt.Sprintf(`for _, name in ipairs(redis.acl_check_cmd and {%s} or {}) do
  if not redis.acl_check_cmd(name, KEYS[1], KEYS[1], KEYS[1]) then
    return redis.error_reply('DENIED this user may not run ' .. name)
  end
end
`, quoted) + text)
}

// Commands returns the commands by which rows are released, begun and settled.
func Commands() []string {
	return commandsOf(source("clock") + source("index") + source("segment") + source("report"))
}

// commandsOf returns the commands that the text of a script calls.
func commandsOf(text string) (names []string) {
	for _, call := range commandCalls.FindAllStringSubmatch(text, -1) {
		names = append(names, call[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// commandCalls matches the calls of commands in a script.
var commandCalls = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the name is a constant
	}
	return string(text)
}

// status is the first value of a script's answer.
type status string

// The statuses of scripts that did not do all that they may do.
const (
	statusMissing   status = "missing"
	statusMalformed status = "malformed"
	statusDiffers   status = "differs" // other segments are staged
	statusChanged   status = "changed" // a staged run was continued or committed since it was read
)

// refusals are the errors of statuses with which a script has changed nothing.
var refusals = map[status]error{
	statusMissing: ErrNotFound,
	"open":        ErrOpen,
	"ended":       ErrEnded,
	"raced":       ErrRaced,
	"mismatch":    ErrMismatch,
	"replaced":    ErrReplaced,
}

// answer is the answer of a script: a status, then values.
type answer []any

// onSegment runs a script of a segment, whose name is its first argument.
func (l *Ledger) onSegment(ctx context.Context, s *redis.Script, seg Segment, args ...any) (answer, error) {
	return l.do(ctx, s, rowsKeys(seg), append([]any{seg.String()}, args...))
}

// rowsKeys returns the keys of a script of a segment: see rowsParts.
func rowsKeys(seg Segment) []string {
	return append(segmentKeys(seg), headerKey(seg.Tenant, seg.Run, "header"), headerKey(seg.Tenant, seg.Run, "sums"),
		tenantKey(seg.Tenant, "due"), tenantKey(seg.Tenant, "finishing"),
		tenantKey(seg.Tenant, "names"), tenantKey(seg.Tenant, "ids"), tenantKey(seg.Tenant, "sessions"))
}

func (l *Ledger) onTenant(ctx context.Context, s *redis.Script, t Tenant, args ...any) (answer, error) {
	return l.do(ctx, s, tenantKeys(t), args)
}

func (l *Ledger) onSessions(ctx context.Context, s *redis.Script, args ...any) (answer, error) {
	return l.do(ctx, s, keysOf(sessionParts, sessionKey), args)
}

// do runs a script. If it has changed nothing, the error is one of refusals.
func (l *Ledger) do(ctx context.Context, s *redis.Script, keys []string, args []any) (answer, error) {
	values, err := s.Run(ctx, l.rdb, keys, args...).Slice()
	if err != nil {
		return nil, noMemory(err)
	}
	a := answer(values)
	if a.status() == statusMalformed {
		return a, fmt.Errorf("stored header: %s is malformed", a.text(1))
	}
	return a, refusals[a.status()]
}

// noMemory returns an [ErrNoMemory] if the error is one. Redis 6 wraps the error of a
// command in a script, so that its prefix differs.
func noMemory(err error) error {
	if err != nil && strings.Contains(err.Error(), "OOM command not allowed") {
		return fmt.Errorf("%w (%w)", ErrNoMemory, err)
	}
	return err
}

func (a answer) status() status { return status(a.text(0)) }

// text returns the value at i; "" if there is none.
func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	text, _ := a[i].(string)
	return text
}

// int returns the number at i.
func (a answer) int(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].(int64)
	return n
}

// list returns the list at i.
func (a answer) list(i int) answer {
	if i >= len(a) {
		return nil
	}
	list, _ := a[i].([]any)
	return list
}

// texts returns the whole answer as texts.
func (a answer) texts() []string {
	all := make([]string, len(a))
	for i := range a {
		all[i] = a.text(i)
	}
	return all
}

// hash returns the answer to HGETALL at i.
func (a answer) hash(i int) map[string]string {
	flat := a.list(i).texts()
	hash := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		hash[flat[i]] = flat[i+1]
	}
	return hash
}

// flag returns 1 for true.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pages divides a list into parts of at most n elements that have at most so many bytes
// together; a larger element is a part of its own.
func pages[T any](all []T, n, bytes int, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(all) > 0 {
			past := 1
			sum := size(all[0])
			for past < min(n, len(all)) && sum+size(all[past]) <= bytes {
				sum += size(all[past])
				past++
			}
			if !yield(all[:past]) {
				return
			}
			all = all[past:]
		}
	}
}

// ints returns numbers as arguments of a script.
func ints[T ~int](numbers []T) []any {
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i] = int(n)
	}
	return args
}

// texts returns texts as arguments of a script.
func texts[T ~string](all []T) []any {
	args := make([]any, len(all))
	for i, text := range all {
		args[i] = string(text)
	}
	return args
}
