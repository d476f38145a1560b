package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// Store is what the producer needs of the ledger: the rows are stored there
// before any task of theirs is enqueued, so that whatever happens to the
// queue, what was asked for can be read.
type Store interface {
	// StoreRows stores up to ChunkRows rows, the first of which is a
	// multiple of ChunkRows. Storing the same again is harmless.
	StoreRows(ctx context.Context, run string, first int64, rows [][]byte) error
	// Seal says that the run has total rows and no more are coming.
	Seal(ctx context.Context, run string, total int64) error
	// Settled says of each item whether it is settled.
	Settled(ctx context.Context, run string, items []int64) ([]bool, error)
	// Settle settles those of the items that are open; each counts once.
	Settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail string) error
}

// Run is the run that rows are submitted for, as the ledger has it.
type Run struct {
	ID         string // see CheckRunID; NewRunID makes one
	Kind       string // see Kinds
	Tenant     string
	CreatedAt  time.Time     // GiveUp counts from then on, and how often a row is looked at
	First      int           // the generation of its first tasks
	Generation int           // of the tasks enqueued now
	Floor      int           // the least one whose tasks are not dropped
	Existed    bool          // submitted before, perhaps not to its end
	Rows       int64         // how many rows are coming; 0: not known
	Priority   Priority      // of its lane; the same whenever tasks of the run are made
	GiveUp     time.Duration // how long a token may take to appear; 0: DefaultGiveUp
	// Lost looks for tasks: only rows for which none stands are enqueued. nil: every
	// open row is, and stays as it is where there is a task of the same generation.
	Lost *Search
}

// rowQueue is where the tasks of single rows begin.
func (r Run) rowQueue(lane Lane) string {
	switch r.Kind {
	case TypeVerify:
		return DNSQueue(r.Tenant, lane)
	case TypeRecheck:
		return RecheckQueue(r.Tenant)
	}
	return APIQueue(r.Tenant, lane)
}

// lane is where the run's tasks go.
func (r Run) lane() Lane {
	if r.Priority == ByRows {
		return Lane(r.Rows > 0 && r.Rows <= FastRows)
	}
	return Lane(r.Priority == HighPriority)
}

// Sizes of what the producer holds at a time.
const (
	// ChunkRows is how many rows are stored in one value.
	ChunkRows = 1000
	// windowRows is within how many rows those of clients:remove are grouped
	// by organization. The windows begin at fixed rows, so that a producer
	// that is run again forms the same batches.
	windowRows = 10 * ChunkRows
	// askRows is how many rows one request to the ledger names: Redis does
	// nothing else meanwhile.
	askRows = 1000
	// enqueuers is how many enqueues are in flight at a time: as many as make
	// pipelines worth while, where the client forms such of them.
	enqueuers = 256
)

// Producer enqueues rows. It is safe for concurrent use; a [Submission] is not.
type Producer struct {
	client Enqueuer
	store  Store
}

// NewProducer returns a producer that enqueues by client, an *asynq.Client,
// and stores rows in store.
func NewProducer(client Enqueuer, store Store) *Producer {
	return &Producer{client: client, store: store}
}

// Submission is one run being submitted, row by row.
type Submission struct {
	producer *Producer
	run      Run
	lane     Lane
	now      func() time.Time

	next   int64    // the item that comes next
	chunk  [][]byte // sources not stored yet
	window []held   // rows not enqueued yet; window[0] is item next-len(window)
	sum    Summary
	flying chan error // the end of the window before, which is on its way; nil: none is
}

// held is a row whose window is not full yet: one that becomes work, or one
// whose outcome is known already.
type held struct {
	row     Row
	outcome Outcome // empty: it becomes work
	detail  string
}

// Begin begins to submit the run's rows, or to hand them in again: what is
// settled or enqueued already is then left alone.
func (p *Producer) Begin(r Run) (*Submission, error) {
	if err := errors.Join(CheckRunID(r.ID), CheckTenant(r.Tenant), CheckPriority(r.Priority)); err != nil {
		return nil, err
	}
	if _, ok := KindOf(r.Kind); !ok {
		return nil, fmt.Errorf("kind: unknown %.40q", r.Kind)
	}
	if r.CreatedAt.IsZero() {
		return nil, fmt.Errorf("run %s: created_at is missing", r.ID)
	}
	if r.Generation <= 0 {
		return nil, fmt.Errorf("run %s: generation is missing: it is that of the run in the ledger", r.ID)
	}
	if r.GiveUp <= 0 {
		r.GiveUp = DefaultGiveUp
	}
	return &Submission{producer: p, run: r, lane: r.lane(), now: time.Now}, nil
}

// Add submits the next row: items count from 0 and none is left out. source
// is the row as it came, kept for handing it back.
func (s *Submission) Add(ctx context.Context, item int64, source []byte, row Row) error {
	return s.add(ctx, item, source, held{row: row})
}

// AddSettled submits the next row as one that becomes no work, since its
// outcome is known: it is stored and counted like any other.
func (s *Submission) AddSettled(ctx context.Context, item int64, source []byte, outcome Outcome, detail string) error {
	if !outcome.Settles() {
		return fmt.Errorf("row %d: outcome %q does not settle a row", item, outcome)
	}
	return s.add(ctx, item, source, held{outcome: outcome, detail: detail})
}

func (s *Submission) add(ctx context.Context, item int64, source []byte, h held) error {
	if item != s.next {
		return fmt.Errorf("row %d submitted, want row %d", item, s.next)
	}
	if h.outcome == "" && h.row.kind != s.run.Kind {
		return fmt.Errorf("row %d is of kind %q, the run of kind %q", item, h.row.kind, s.run.Kind)
	}
	s.next++
	s.chunk = append(s.chunk, source)
	s.window = append(s.window, h)
	if len(s.chunk) == ChunkRows {
		if err := s.storeChunk(ctx); err != nil {
			return err
		}
	}
	if len(s.window) == s.run.WindowRows() {
		return s.launch(ctx)
	}
	return nil
}

// launch enqueues the window while the caller goes on to read the rows of the
// next, once the window before has landed: at most two are held.
func (s *Submission) launch(ctx context.Context) error {
	if err := s.landed(); err != nil {
		return err
	}
	window, first, flying := s.window, s.next-int64(len(s.window)), make(chan error, 1)
	s.window, s.flying = make([]held, 0, cap(window)), flying
	go func() { flying <- s.enqueueWindow(ctx, window, first) }()
	return nil
}

// landed waits for the window that is on its way.
func (s *Submission) landed() error {
	if s.flying == nil {
		return nil
	}
	err := <-s.flying
	s.flying = nil
	return err
}

// Close waits for what is on its way. It is for submissions that are given up;
// after Finish it does nothing.
func (s *Submission) Close() {
	if err := s.landed(); err != nil {
		return // whoever gives up has an error already
	}
}

// Finish submits what is still held and seals the run.
func (s *Submission) Finish(ctx context.Context) (Summary, error) {
	err := s.storeChunk(ctx)
	if err == nil {
		err = s.launch(ctx)
	}
	if err := errors.Join(err, s.landed()); err != nil {
		return s.sum, err
	}
	s.sum.Rows = s.next
	if err := s.producer.store.Seal(ctx, s.run.ID, s.next); err != nil {
		return s.sum, fmt.Errorf("seal run %s: %w", s.run.ID, err)
	}
	return s.sum, nil
}

func (s *Submission) storeChunk(ctx context.Context) error {
	if len(s.chunk) == 0 {
		return nil
	}
	first := s.next - int64(len(s.chunk))
	if err := s.producer.store.StoreRows(ctx, s.run.ID, first, s.chunk); err != nil {
		return fmt.Errorf("store rows from %d of run %s: %w", first, s.run.ID, err)
	}
	s.chunk = s.chunk[:0]
	return nil
}

// enqueueWindow enqueues the tasks of the window's rows, the first of which is
// row first. Rows that an earlier submission of this run has settled are left
// alone. Beside it only the reading goes on: what it counts is read once it has
// landed.
func (s *Submission) enqueueWindow(ctx context.Context, window []held, first int64) error {
	if len(window) == 0 {
		return nil
	}
	settled, err := s.settled(ctx, window, first)
	if err != nil {
		return err
	}
	if err := s.settleKnown(ctx, window, first, settled); err != nil {
		return err
	}
	units := s.rowTasks(window, first, settled)
	if s.run.Kind == TypeRemove {
		units = s.batches(window, first, settled)
	}
	s.sum.Tasks += int64(len(units))
	if s.run.Lost != nil {
		if units, err = s.run.Lost.lost(ctx, s.run, units); err != nil {
			return err
		}
	}
	if err := s.enqueueAll(ctx, tasksOf(units)); err != nil {
		return fmt.Errorf("enqueue rows from %d of run %s: %w", first, s.run.ID, err)
	}
	return nil
}

// settleKnown settles the rows of the window whose outcome is known already.
func (s *Submission) settleKnown(ctx context.Context, window []held, first int64, settled []bool) error {
	type fate struct {
		outcome Outcome
		detail  string
	}
	items := map[fate][]int64{}
	for i, h := range window {
		if h.outcome != "" && !settled[i] {
			f := fate{h.outcome, h.detail}
			items[f] = append(items[f], first+int64(i))
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(enqueuers)
	for f, alike := range items {
		for some := range slices.Chunk(alike, askRows) {
			g.Go(func() error {
				return s.producer.store.Settle(ctx, s.run.ID, s.run.Kind, s.run.Generation, some, string(f.outcome), f.detail)
			})
		}
	}
	return g.Wait()
}

// settled says which rows of the window are settled; of a run made just now
// none is.
func (s *Submission) settled(ctx context.Context, window []held, first int64) ([]bool, error) {
	if !s.run.Existed {
		return make([]bool, len(window)), nil
	}
	items := make([]int64, len(window))
	for i := range items {
		items[i] = first + int64(i)
	}
	settled := make([]bool, 0, len(items))
	for some := range slices.Chunk(items, askRows) {
		are, err := s.producer.store.Settled(ctx, s.run.ID, some)
		if err != nil {
			return nil, fmt.Errorf("ask which rows of run %s are settled: %w", s.run.ID, err)
		}
		settled = append(settled, are...)
	}
	for _, is := range settled {
		if is {
			s.sum.Settled++
		}
	}
	return settled, nil
}

func (s *Submission) envelope() Envelope {
	return Envelope{V: Version, Tenant: s.run.Tenant, Run: s.run.ID, CreatedAt: s.run.CreatedAt, Generation: s.run.Generation}
}

// rowTasks are the tasks of rows that are a task each.
func (s *Submission) rowTasks(window []held, first int64, settled []bool) []unit {
	queue := s.run.rowQueue(s.lane)
	var units []unit
	for i, h := range window {
		if settled[i] || h.outcome != "" {
			continue
		}
		row := h.row
		e := s.envelope()
		e.Item = new(first + int64(i))
		units = append(units, unit{items: []int64{*e.Item}, open: 1, task: spec{
			typ: row.kind, queue: queue, id: rowTaskID(e.Run, *e.Item, s.run.Generation),
			payload: row.payload(e, e.CreatedAt.Add(s.run.GiveUp)), after: row.after(s.now()),
		}})
	}
	return units
}

// batches groups the window's rows by organization, in the order in which the
// organizations first come, into batches of at most MaxClients. The grouping
// is of all rows that become work, also of settled ones, so that it is the same
// each time; a batch of which everything is settled is left out.
func (s *Submission) batches(window []held, first int64, settled []bool) []unit {
	var order []string
	open := map[string]*batch{}
	var units []unit
	for i, h := range window {
		if h.outcome != "" {
			continue
		}
		row := h.row
		b, ok := open[row.organization]
		if !ok {
			b = &batch{}
			open[row.organization] = b
			order = append(order, row.organization)
		}
		b.add(first+int64(i), row.id, settled[i])
		if len(b.items) == MaxClients {
			units = b.appendTask(units, s, row.organization)
			*b = batch{}
		}
	}
	for _, organization := range order {
		units = open[organization].appendTask(units, s, organization)
	}
	return units
}

// batch is up to MaxClients rows of one organization.
type batch struct {
	items   []int64
	clients []string
	open    int64
}

func (b *batch) add(item int64, client string, settled bool) {
	b.items = append(b.items, item)
	b.clients = append(b.clients, client)
	if !settled {
		b.open++
	}
}

func (b *batch) appendTask(units []unit, s *Submission, organization string) []unit {
	if b.open == 0 {
		return units
	}
	e := s.envelope()
	e.Items = b.items
	return append(units, unit{items: b.items, open: b.open, task: spec{
		typ: TypeRemove, queue: APIQueue(s.run.Tenant, s.lane), id: batchTaskID(e.Run, e.Items, s.run.Generation),
		payload: RemovePayload{Envelope: e, OrganizationID: organization, Clients: b.clients},
	}})
}

func tasksOf(units []unit) []spec {
	specs := make([]spec, len(units))
	for i, u := range units {
		specs[i] = u.task
	}
	return specs
}

// enqueueAll enqueues with many requests in flight.
func (s *Submission) enqueueAll(ctx context.Context, specs []spec) error {
	g, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(enqueuers, len(specs)) {
		g.Go(func() error {
			for i := taken.Add(1); i <= int64(len(specs)); i = taken.Add(1) {
				if err := enqueue(ctx, s.producer.client, specs[i-1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// spec is a task to be enqueued.
type spec struct {
	typ     string
	payload any
	id      string
	queue   string
	after   time.Duration

	retention time.Duration // how long its id stays taken, if longer than that of a row's task
}

// Times that asynq is given, in whole seconds: it knows no finer ones.
const (
	// retention keeps a finished task's id taken, so that a row submitted
	// again within it is known to be there already.
	retention = 15 * time.Minute
	// recheckRetention is that of a sweep's looks. Nobody hands their rows in again, a
	// second run of one that is settled ends at the ledger, and there may be 200,000 of
	// them in minutes, of 1.1 KB each.
	recheckRetention = time.Minute
	// taskTimeout is beyond the sum of the timeouts inside every handler.
	taskTimeout = 10 * time.Minute
)

func retentionOf(typ string) time.Duration {
	if typ == TypeRecheck {
		return recheckRetention
	}
	return retention
}

// enqueue enqueues one task with all of its options. A task of that id that
// is there already is what was wanted: asynq says so also where it was this
// very call that enqueued it and only the answer was lost.
func enqueue(ctx context.Context, e Enqueuer, s spec) error {
	body, err := json.Marshal(s.payload)
	if err != nil {
		return fmt.Errorf("payload of %s: %w", s.id, err)
	}
	options := []asynq.Option{
		asynq.TaskID(s.id), asynq.Queue(s.queue), asynq.MaxRetry(maxRetry),
		asynq.Timeout(taskTimeout), asynq.Retention(max(retentionOf(s.typ), s.retention)),
	}
	if s.after > 0 {
		options = append(options, asynq.ProcessIn(s.after))
	}
	_, err = e.EnqueueContext(ctx, asynq.NewTask(s.typ, body), options...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return queueError(err)
}
