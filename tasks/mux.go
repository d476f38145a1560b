package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
)

// Config is what the handlers of one tenant work with. API, DNS, Ledger,
// Pace, ClientLimit, Enqueuer and Stopping are required.
type Config struct {
	Tenant   string
	API      API
	DNS      DNS
	Ledger   Ledger
	Pace     Pace
	Enqueuer Enqueuer
	Meter    Meter // nil: nothing is measured
	// Ended is told how each execution ended, with its context, for traces; nil: nobody is.
	Ended  func(ctx context.Context, outcome string)
	Logger *slog.Logger // nil: slog.Default()

	// MaxClientsPerRequest is the most clients that one DELETE names; 0: 100.
	MaxClientsPerRequest int
	// ClientLimit remembers where the tenant takes fewer.
	ClientLimit ClientLimit
	// RequestTimeout is the API client's: after a lost answer twice this
	// long passes before anyone looks whether the request landed.
	RequestTimeout time.Duration
	// TrustPayload waives the GET before a proof, for credentials that may
	// not read: then the row has to bring host, token and the flag.
	TrustPayload bool
	// ThinProofAfter has a proof accepted that lacks nothing but silent name servers, once
	// it has been so for that time; 0: never. DNS has to notice such proofs.
	ThinProofAfter time.Duration
	// AllowUnproven lets domain:update set verified without any proof.
	AllowUnproven bool

	// Memories is what is remembered of the domains that are swept, and Rules
	// decides on those that have lost their token.
	Memories Memories
	Rules    Rules
	// Restore submits the row by which a sweep gives a status back. To submit it again is
	// harmless. If another row has the run's id, the error has a method Mismatch() bool.
	// It is required where there are Memories.
	Restore func(context.Context, Restoration) error
	// Notices is told of what happens to domains; nil: nobody is.
	Notices Notices

	// Stopping is closed when the worker stops: handlers leave at the next
	// place where that is safe.
	Stopping <-chan struct{}
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Result is what a handler says when there was no error.
type Result struct {
	Outcome Outcome // Done, Unchanged or HandedOn
	Detail  string  // a template's id, or what is to be known besides
	// Evidence is the proof of a verification, as packProof packs it; nil: there is none.
	Evidence []byte
}

// Job is what a handler gets beside its payload. Its rows are those of the
// payload that are open.
type Job struct {
	Envelope
	TaskID string
	Lane   Lane

	retried int               // attempts that were used up before
	kept    map[string][]byte // of its row by earlier executions, by name
	written map[string][]byte // and by this one, of what has begun
	// ending says that the run was cancelled and the row has begun: what became
	// of that is found out, and nothing else begins.
	ending bool
	look   func(context.Context) error // asks the ledger once more
}

// leaveOut takes the settled ones out of a batch's rows.
func (j *Job) leaveOut(settled []bool) {
	var open []int64
	for i, item := range j.Items {
		if !settled[i] {
			open = append(open, item)
		}
	}
	j.Items = open
}

// work carries out one execution of a task.
type work func(ctx context.Context, job Job, payload []byte) (Result, error)

// Mux is the asynq handler of one tenant's tasks: it asks the ledger whether
// there is anything to do, lets the type's handler do it, and settles, notes,
// logs and measures what came of it.
type Mux struct {
	cfg   Config
	works map[string]work
	walk  *walk
}

// NewMux returns the handler of the tenant's tasks.
func NewMux(cfg Config) *Mux {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxClientsPerRequest <= 0 || cfg.MaxClientsPerRequest > MaxClients {
		cfg.MaxClientsPerRequest = MaxClients
	}
	records, remembered := records{api: cfg.API, now: cfg.Now}, remembered{cfg}
	w := &walk{cfg: cfg}
	return &Mux{cfg: cfg, walk: w, works: map[string]work{
		TypeVerify:  decoded((&verify{cfg: cfg, records: records}).process),
		TypeConfirm: decoded((&confirm{cfg: cfg, records: records}).process),
		TypeUpdate:  decoded((&update{cfg: cfg, records: records}).process),
		TypeRemove:  decoded((&remove{cfg: cfg}).process),
		TypeCreate:  decoded((&create{cfg: cfg}).process),
		TypeWalk:    walks[WalkPayload](w),
		TypeSweep:   walks[SweepPayload](w),
		TypeRecheck: decoded((&recheck{cfg: cfg, remembered: remembered}).process),
		TypeRelook:  decoded((&relook{cfg: cfg, remembered: remembered}).process),
		TypeAct:     decoded((&act{cfg: cfg, remembered: remembered}).process),
		TypeJudge:   decoded((&judging{cfg: cfg}).process),
	}}
}

// payload is what all payloads can do.
type payload interface{ Validate() error }

// decoded makes a work of a handler that wants its payload read.
func decoded[P payload](process func(context.Context, Job, P) (Result, error)) work {
	return func(ctx context.Context, job Job, raw []byte) (Result, error) {
		var p P
		if err := decodeStrict(raw, &p); err != nil {
			return Result{}, invalid(fmt.Errorf("payload: %w", err))
		}
		if err := p.Validate(); err != nil {
			return Result{}, invalid(fmt.Errorf("payload: %w", err))
		}
		return process(ctx, job, p)
	}
}

// delivery is what asynq says of an execution.
type delivery struct {
	taskID, queue string
	retried       int // attempts that were used up before
}

func deliveryOf(ctx context.Context) delivery {
	var d delivery
	d.taskID, _ = asynq.GetTaskID(ctx)
	d.queue, _ = asynq.GetQueueName(ctx)
	d.retried, _ = asynq.GetRetryCount(ctx)
	return d
}

// ProcessTask implements asynq.Handler.
func (m *Mux) ProcessTask(ctx context.Context, t *asynq.Task) error {
	return m.deliver(ctx, t, deliveryOf(ctx))
}

func (m *Mux) deliver(ctx context.Context, t *asynq.Task, d delivery) error {
	start := m.cfg.Now()
	env, err := readEnvelope(t.Type(), t.Payload())
	if err != nil {
		return m.unrecorded(ctx, t, env, d, Judgement{Outcome: Invalid, Reason: err.Error()})
	}
	job := Job{Envelope: env, TaskID: d.taskID, Lane: laneOf(d.queue)}

	result, err := m.execute(ctx, t, &job, d.retried)
	if errors.Is(err, errNothingToDo) {
		m.log(ctx, t, job, Judgement{Outcome: "settled_before"}, slog.LevelDebug, d.retried, m.cfg.Now().Sub(start))
		return nil
	}
	return m.conclude(ctx, t, job, result, err, d.retried, m.cfg.Now().Sub(start))
}

// errNothingToDo: the rows are settled already.
var errNothingToDo = errors.New("settled already")

// execute asks whether there is work, and whether it may be tried once more,
// before the type's handler gets it. Rows that are settled leave the job: what
// becomes of the others is none of theirs.
func (m *Mux) execute(ctx context.Context, t *asynq.Task, job *Job, retried int) (Result, error) {
	if stopping(m.cfg.Stopping) {
		return Result{}, ErrStopping
	}
	handle, known := m.works[t.Type()]
	if classOf(t.Type()) == ofNone {
		job.retried = retried
		if err := m.unfit(t, *job, known); err != nil {
			return Result{}, err
		}
		ctx = apiclient.WithCorrelationID(job.onErrand(ctx, t.Type()), job.TaskID)
		return protect(ctx, handle, *job, t.Payload())
	}
	kind := "" // a newer worker's task may be of a kind of its own
	if known {
		kind = job.kindOfType(t.Type())
	}
	asked := m.cfg.Now()
	settled, kept, drop, err := m.cfg.Ledger.Standing(ctx, job.Run, kind, job.Generation, job.Rows())
	if err != nil {
		return Result{}, err
	}
	job.kept, job.retried, job.written = kept, retried, map[string][]byte{}
	if allSettled(settled) {
		return Result{}, errNothingToDo
	}
	job.ending = drop == string(Cancelled) && job.hasBegun()
	if err := job.stop(drop); err != nil && !job.ending && !waits(t.Type(), err) {
		return Result{}, err
	}
	job.leaveOut(settled)
	if known && classOf(t.Type()) == ofRows && (job.Item == nil) != (t.Type() == TypeRemove) {
		return Result{}, invalid(fmt.Errorf("payload: want item for one row and items for a batch, and %s is the other", t.Type()))
	}
	if err := m.unfit(t, *job, known); err != nil {
		return Result{}, err
	}
	job.look = m.secondLook(*job, kind, asked)
	if !job.hasBegun() {
		ctx = job.beginning(ctx)
	}
	ctx = apiclient.WithCorrelationID(job.onErrand(ctx, t.Type()), job.TaskID)
	return protect(ctx, handle, *job, t.Payload())
}

// attempts is how often a task may meet trouble. The judging of a sweep runs a hundred
// times before that ends, and is never given up.
func attempts(typ string) int {
	if typ == TypeJudge {
		return maxRetry
	}
	return MaxAttempts
}

// waits says whether a task is not dropped for that: a sweep is judged once, at its
// end, whether or not it was paused and resumed meanwhile.
func waits(typ string, dropped error) bool {
	return typ == TypeJudge && !errors.Is(dropped, ErrCancelled)
}

// unfit says why a task is not for this worker, or not to be tried any more.
func (m *Mux) unfit(t *asynq.Task, job Job, known bool) error {
	if job.Tenant != m.cfg.Tenant {
		return invalid(fmt.Errorf("payload: a task of tenant %.40q in a queue of tenant %q", job.Tenant, m.cfg.Tenant))
	}
	if !known || job.V > Version {
		return m.tooNew(t, job)
	}
	// Before the work, so that a task which takes its worker down with it
	// ends too: asynq counts an attempt for each lease that was lost.
	if job.retried >= attempts(t.Type()) {
		return &settledError{Failed, fmt.Sprintf("given up after %d attempts; the last ones ended without an answer (its worker died, or the task ran out of time)", job.retried)}
	}
	return nil
}

// allSettled: a task without a row, a walk's, is through only when the walk is.
func allSettled(settled []bool) bool { return len(settled) > 0 && !slices.Contains(settled, false) }

// panicError is what a panic in a handler becomes.
type panicError struct {
	value string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.value }

// protect turns a panic of the handler into an error.
func protect(ctx context.Context, handle work, job Job, payload []byte) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: fmt.Sprint(p), stack: debug.Stack()}
		}
	}()
	return handle(ctx, job, payload)
}

// Bounds of waiting for a newer worker.
const (
	unknownFor   = 24 * time.Hour
	unknownAgain = 5 * time.Minute
)

// tooNew leaves a task that this worker cannot read for a newer one, for a day.
func (m *Mux) tooNew(t *asynq.Task, job Job) error {
	reason := fmt.Sprintf("no handler for type %.40q version %d in this worker; a newer one is needed", t.Type(), job.V)
	if m.cfg.Now().Sub(job.CreatedAt) < unknownFor {
		return later(reason, unknownAgain)
	}
	return &settledError{Invalid, reason}
}

// unrecorded ends an execution of which the ledger cannot be told, since it has
// no row that the task stands for: not even the rows are known, or those are
// others'.
func (m *Mux) unrecorded(ctx context.Context, t *asynq.Task, e Envelope, d delivery, j Judgement) error {
	if j.Counts {
		j.After = max(j.After, backoff(d.retried))
	}
	m.log(ctx, t, Job{Envelope: e, TaskID: d.taskID}, j, j.Outcome.Level(), d.retried, 0)
	m.measure(ctx, t.Type(), j.Outcome, 0)
	return &verdictError{j}
}

// conclude settles or notes the rows, logs, measures, and tells asynq.
func (m *Mux) conclude(ctx context.Context, t *asynq.Task, job Job, r Result, err error, attempt int, took time.Duration) error {
	j := Judge(err)
	if err == nil {
		j.Outcome, j.Reason = r.Outcome, r.Detail
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		m.cfg.Logger.ErrorContext(ctx, "handler panicked", "run", job.Run, "task_id", job.TaskID, "panic", p.value, "stack", string(p.stack))
	}
	if j.Outcome == Transient && j.Counts && attempt+1 >= attempts(t.Type()) {
		j = Judgement{Outcome: Failed, Reason: fmt.Sprintf("given up after %d attempts: %s", attempt+1, j.Reason)}
	}
	if j.Outcome == Transient && j.Counts { // the API may ask for more, or for less than it needs
		j.After = max(j.After, backoff(attempt))
	}
	// The rows' state is written even when the execution's own time is up.
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if j.Outcome == Failed {
		j.Reason = m.inDoubt(record, t.Type(), job) + j.Reason
	}
	if lost := m.record(record, t, job, j, r.Evidence); errors.Is(lost, errBegunMeanwhile) {
		j = Judge(lost) // nothing is lost: the other execution settles the row
	} else if lost != nil {
		m.cfg.Logger.WarnContext(ctx, "writing to the ledger failed", "run", job.Run, "task_id", job.TaskID, "outcome", j.Outcome, "error", lost)
		j = Judge(lost) // a ledger that does not know the row archives it: there is nothing to settle
	}
	m.log(ctx, t, job, j, j.Outcome.Level(), attempt, took)
	m.measure(ctx, t.Type(), j.Outcome, took)
	if j.Outcome == HandedOn || j.Outcome.Well() {
		if j.Outcome.Settles() && j.Reason != "" {
			m.writeResult(t, j)
		}
		return nil
	}
	return &verdictError{j}
}

// record puts what happened into the ledger, and tells the pace of a block.
func (m *Mux) record(ctx context.Context, t *asynq.Task, job Job, j Judgement, evidence []byte) error {
	switch {
	case t.Type() == TypeWalk, t.Type() == TypeSweep:
		return m.recordWalk(ctx, job, t, j)
	case classOf(t.Type()) != ofRows:
		return m.block(ctx, j)
	case j.Outcome.Settles():
		return m.settle(ctx, job, job.kindOfType(t.Type()), j, evidence)
	}
	switch j.Outcome {
	case HandedOn, NotYet, Stopping, Paused, Superseded: // the ledger knows, or another task tells
		return nil
	}
	if err := m.block(ctx, j); err != nil {
		return err
	}
	next := m.cfg.Now().Add(j.After)
	return m.cfg.Ledger.Note(ctx, job.Run, job.Generation, job.Rows(), string(j.Outcome)+": "+j.Reason, next)
}

// settle settles the task's rows. A single one is left to another execution that has
// begun something for it since this one looked: what this one has found says nothing
// of that.
func (m *Mux) settle(ctx context.Context, job Job, kind string, j Judgement, evidence []byte) error {
	if job.Item == nil {
		return m.cfg.Ledger.Settle(ctx, job.Run, kind, job.Generation, job.Rows(), string(j.Outcome), j.Reason)
	}
	name, mark := job.mark()
	against, err := m.cfg.Ledger.SettleRow(ctx, job.Run, kind, job.Generation, *job.Item, name, mark, string(j.Outcome), j.Reason, evidence)
	if err == nil && against == begunMeanwhile {
		err = errBegunMeanwhile
	}
	return err
}

// block tells the pace of a block that it does not know of.
func (m *Mux) block(ctx context.Context, j Judgement) error {
	if j.Outcome != Blocked || j.Operation == "" {
		return nil
	}
	return m.cfg.Pace.Block(ctx, j.Operation, j.Cause)
}

// log writes the one line of an execution. The type, and the envelope of a payload that
// could not be read, are whatever somebody wrote to Redis.
func (m *Mux) log(ctx context.Context, t *asynq.Task, job Job, j Judgement, level slog.Level, attempt int, took time.Duration) {
	if !m.cfg.Logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("type", cutRunes(t.Type(), longestLogged)), slog.String("tenant", cutRunes(job.Tenant, longestLogged)))
	if job.Run != "" {
		attrs = append(attrs, slog.String("run", cutRunes(job.Run, longestLogged)))
	}
	switch {
	case job.Item != nil:
		attrs = append(attrs, slog.Int64("item", *job.Item))
	case len(job.Items) > 0:
		attrs = append(attrs, slog.Int("items", len(job.Items)))
	}
	attrs = append(attrs, slog.String("task_id", job.TaskID), slog.String("outcome", string(j.Outcome)),
		slog.Duration("took", took), slog.Int("attempt", attempt))
	if j.Reason != "" {
		attrs = append(attrs, slog.String("reason", j.Reason))
	}
	if !j.Outcome.Settles() && j.After > 0 {
		attrs = append(attrs, slog.Duration("again_in", j.After.Round(time.Second)))
	}
	m.cfg.Logger.LogAttrs(ctx, level, "task", attrs...)
}

// longestLogged is what is left of a text of a payload, in code points: no name of ours
// is longer.
const longestLogged = 64

func (m *Mux) measure(ctx context.Context, typ string, o Outcome, took time.Duration) {
	if _, known := m.works[typ]; !known {
		typ = "unknown" // whoever writes to Redis chooses it: no label of theirs
	}
	if m.cfg.Meter != nil {
		m.cfg.Meter.Task(m.cfg.Tenant, typ, string(o), took)
	}
	if m.cfg.Ended != nil {
		m.cfg.Ended(ctx, string(o))
	}
}

// writeResult leaves what is to be known beyond done with the task, for whoever
// looks at the queue. The ledger has it already: a lost write is no loss.
func (m *Mux) writeResult(t *asynq.Task, j Judgement) {
	w := t.ResultWriter()
	if w == nil {
		return
	}
	body, err := json.Marshal(struct {
		Outcome Outcome `json:"outcome"`
		Detail  string  `json:"detail,omitempty"`
	}{j.Outcome, j.Reason})
	if err == nil {
		_, err = w.Write(body)
	}
	if err != nil {
		m.cfg.Logger.Debug("task result not written", "task_id", w.TaskID(), "error", err)
	}
}

// stopping says whether the channel is closed.
func stopping(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
