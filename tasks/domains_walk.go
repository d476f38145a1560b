package tasks

// A walk finds the rows of a run: it goes through the tenant's organizations and
// their discovery domains, and those that it is after become rows: the pending ones
// of a run that verifies, mostly the verified ones of a sweep. It goes step by step.
// The ledger makes a step whole or not at all, and only if it is the next one: the
// rows that were found and the place where the walk goes on change together. So a
// page that is walked twice, and reads otherwise the second time, adds its rows once.
// What an execution that was killed has left to do, rows that are stored and not
// enqueued, the next task, the judging of a sweep, the seal, the next one does first;
// the ids of tasks make it harmless to do that twice.
//
// A task makes steps for a few seconds, and then enqueues the one that goes on. Where
// there are two of a walk, as after a repair of what was not lost, the one that was
// enqueued for the later step goes on alone: see walk.process.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
)

// quest is what a walk is after: the payload of its task.
type quest interface {
	// from is the step that the task was enqueued for.
	from() int64
	// onward is the task that goes on from a later step.
	onward(step int64) spec
	// run is the run as tasks are made for rows that are found now.
	run(job Job, now time.Time) Run
	// row is the domain's row, nil if it is to be none, and what is kept beside it. A
	// record outside the specification is a row that parse refuses.
	row(ctx context.Context, cfg Config, told Walked, organization string, l listedDomain) (source, kept []byte, err error)
	// parse reads a row that row made. The error says why it is no work.
	parse(source []byte) (Row, error)
	// over does what is left to do once the last row is enqueued.
	over(ctx context.Context, cfg Config, job Job, told Walked) error
	// came says in words what the walk has come to.
	came(rows int64, told Walked) string
}

// listedDomain is a record of an organization's list.
type listedDomain = apiclient.Listed[apiclient.DiscoveryDomain]

// Walks is what a walk needs of the ledger.
type Walks interface {
	// WalkAt is where the walk stands: the number of its next step, the rows that may
	// not be enqueued, from enqueued on up to stored, what is told of the walk, and
	// where it goes on, empty before its first step.
	WalkAt(ctx context.Context, run string) (step, enqueued, stored int64, told, cursor []byte, err error)
	// WalkStep makes the step of that number, all of it or nothing: the rows are added,
	// with what Looked would keep of each under that name (empty: nothing), and told and
	// cursor replaced. against is what stands against it, as drop of Standing says, or
	// "stale" where the step has been made.
	WalkStep(ctx context.Context, run string, generation int, step int64, told, cursor []byte, rows [][]byte, name string, kept [][]byte) (against string, err error)
	// NoteWalk keeps why the walk does not go on, and when it is tried again.
	NoteWalk(ctx context.Context, run string, generation int, reason string, next time.Time) error
	// Rows returns up to n stored rows from number first on.
	Rows(ctx context.Context, run string, first int64, n int) ([][]byte, error)
	// Seal says that the run has total rows and no more are coming.
	Seal(ctx context.Context, run string, total int64) error
	// Left is how many of its rows are open, below 0 while the walk may find more, and
	// what is told of the walk.
	Left(ctx context.Context, run string) (open int64, told []byte, err error)
}

// Walked is what a walk tells of itself, kept as JSON with its run.
type Walked struct {
	Organization string `json:"organization_id,omitempty"` // the only one that is walked; empty: all

	// Of a sweep, Unix seconds: when it was scheduled, or begun by hand, and until
	// when its looks are spread from then on; 0: they are due at once.
	Tick        int64 `json:"tick,omitempty"`
	SpreadUntil int64 `json:"spread_until,omitempty"`
	// Pending says that pending domains are looked at too, and proven where their
	// token is there.
	Pending bool `json:"verify_pending,omitempty"`

	Read   int64  `json:"organizations_read"`
	Gone   int64  `json:"organizations_gone,omitempty"`   // whose domains were answered with 404: deleted since they were listed
	Missed int64  `json:"organizations_missed,omitempty"` // that could not be read
	Why    string `json:"why,omitempty"`                  // the first of these could not
	// Early is why the walk has ended before it had come to all organizations; empty:
	// it has not.
	Early string `json:"ended_early,omitempty"`
	Ended bool   `json:"ended,omitempty"`
	// Task is the step for which the task was enqueued that made the last one.
	Task int64 `json:"task,omitempty"`
}

// Whole says that no organization was left out so far.
func (w Walked) Whole() bool { return w.Missed == 0 && w.Early == "" }

// Bounds of a step.
const (
	// stepOrganizations is how many organizations a step reads, all at once: as many
	// requests as are under way where 250 a second are allowed, and answered within
	// 200 ms. A page of each is 5 MB at the most.
	stepOrganizations = 50
	// stepsFor is how long a task makes steps: fetching the next one, of a server that
	// polls ten times a second, is then 2 % of the walk's time.
	stepsFor = 5 * time.Second
	// mostLate is how many organizations are put off to the end because they could
	// not be read: beyond that it is not they who are in trouble.
	mostLate = 100
	// putOffAfter is how many attempts a step has before what cannot be read is put
	// off, although nothing could be.
	putOffAfter = 2
	// mostPages bounds the pages of one organization's domains: it has a hundred at
	// the most, which are one page.
	mostPages = 100
	// mostEmptyPages in a row are followed: see walkCursor.follow.
	mostEmptyPages = 100
)

// walkCursor is where a walk goes on.
type walkCursor struct {
	From    string `json:"from,omitempty"`    // the checkpoint of the next page of organizations
	Through bool   `json:"through,omitempty"` // there is no such page
	Left    []left `json:"left,omitempty"`    // organizations of the pages before, to be read
	Late    []left `json:"late,omitempty"`    // those that could not be, to be tried again at the end
	Gone    string `json:"gone,omitempty"`    // why the first of those that are gone is taken for that

	Pages int64  `json:"pages,omitempty"`
	Empty int    `json:"empty,omitempty"` // the last ones of these, without an organization
	Mark  string `json:"mark,omitempty"`  // a checkpoint before this one
}

// left is an organization whose domains are to be read.
type left struct {
	ID    string `json:"id"`
	From  string `json:"from,omitempty"` // the checkpoint of the next page of its domains
	Pages int    `json:"pages,omitempty"`
}

// follow sees to it that the pages come to an end. The next checkpoint is held against
// one before it, which is replaced each time the number of pages has doubled: so a
// circle is found whatever its length, and one checkpoint is kept (Brent 1980).
func (c *walkCursor) follow(next string, organizations int) error {
	c.From, c.Through = next, next == ""
	c.Pages++
	if c.Empty++; organizations > 0 {
		c.Empty = 0
	}
	switch {
	case c.Through:
		return nil
	case next == c.Mark:
		return &settledError{Failed, "the list of organizations never ends: a checkpoint was returned twice"}
	case c.Empty > mostEmptyPages:
		return &settledError{Failed, fmt.Sprintf("the list of organizations does not end: %d empty pages in a row", c.Empty)}
	case c.Pages&(c.Pages-1) == 0:
		c.Mark = next
	}
	return nil
}

// walkAt is where a walk stands.
type walkAt struct {
	step, enqueued, stored int64

	told   Walked
	cursor walkCursor
}

// stride is what one step comes to.
type stride struct {
	told    Walked
	cursor  walkCursor
	rows    [][]byte
	records [][]byte // of each row, what its looks need; nil: they read it themselves
}

type walk struct{ cfg Config }

// walks makes a work of the walk that is after Q.
func walks[Q interface {
	payload
	quest
}](h *walk,
) work {
	return decoded(func(ctx context.Context, job Job, q Q) (Result, error) { return h.process(ctx, job, q) })
}

func (h *walk) process(ctx context.Context, job Job, q quest) (Result, error) {
	ctx = inTurn(ctx, job.look)
	until, made := h.cfg.Now().Add(stepsFor), 0
	for {
		if stopping(h.cfg.Stopping) {
			return Result{}, ErrStopping
		}
		at, err := h.at(ctx, job.Run)
		if err != nil {
			return Result{}, err
		}
		if at.told.Task > q.from() {
			return Result{Outcome: HandedOn}, nil // a later task has made a step: it goes on
		}
		if err := h.enqueueFound(ctx, job, q, at); err != nil {
			return Result{}, err
		}
		mayHandOn := at.step > q.from()
		switch {
		case at.told.Ended:
			return h.seal(ctx, job, q, at)
		case mayHandOn && (made == 0 || !h.cfg.Now().Before(until)):
			return h.handOn(ctx, q, at.step)
		}
		s, err := h.stride(ctx, q, at, made == 0 && job.retried >= putOffAfter)
		if err == nil {
			err = h.make(ctx, job, q, at.step, s)
		}
		if mayHandOn && Judge(err).Outcome == Transient {
			return h.handOn(ctx, q, at.step) // so that its attempts count from the last step
		}
		if err != nil {
			return Result{}, err
		}
		made++
	}
}

// inTurn lets requests that go out side by side ask one after the other.
func inTurn(ctx context.Context, look func(context.Context) error) context.Context {
	var turn sync.Mutex
	return apiclient.BeforeSending(ctx, func(ctx context.Context) error {
		turn.Lock()
		defer turn.Unlock()
		return look(ctx)
	})
}

func (h *walk) at(ctx context.Context, run string) (walkAt, error) {
	var at walkAt
	step, enqueued, stored, told, cursor, err := h.cfg.Ledger.WalkAt(ctx, run)
	if err != nil {
		return at, err
	}
	at.step, at.enqueued, at.stored = step, enqueued, stored
	if err := json.Unmarshal(told, &at.told); err != nil {
		return at, fmt.Errorf("scan of run %s: read its progress: %w", run, err)
	}
	if len(cursor) == 0 {
		if at.told.Organization != "" {
			at.cursor = walkCursor{Through: true, Left: []left{{ID: at.told.Organization}}}
		}
		return at, nil
	}
	if err := json.Unmarshal(cursor, &at.cursor); err != nil {
		return at, fmt.Errorf("scan of run %s: read its position: %w", run, err)
	}
	return at, nil
}

// make has the ledger make the step. One that was made meanwhile is none of ours: what
// comes after it is seen to next.
func (h *walk) make(ctx context.Context, job Job, q quest, step int64, s stride) error {
	s.told.Task = q.from()
	s.told.Ended = s.told.Early != "" || s.cursor.Through && len(s.cursor.Left)+len(s.cursor.Late) == 0
	if s.told.Ended {
		s.doubtGone()
	}
	told, err := json.Marshal(s.told)
	if err != nil {
		return fmt.Errorf("store the scan's progress: %w", err)
	}
	cursor, err := json.Marshal(s.cursor)
	if err != nil {
		return fmt.Errorf("store the scan's position: %w", err)
	}
	against, err := h.cfg.Ledger.WalkStep(ctx, job.Run, job.Generation, step, told, cursor, s.rows, keptRecord, s.records)
	if err != nil {
		return err
	}
	return job.stop(against) // nothing, if stale
}

// stride reads what comes next: organizations of the pages so far, else the next
// page of them, and at the end those that were put off. putOff: also where none of
// the organizations could be read, they are put off.
func (h *walk) stride(ctx context.Context, q quest, at walkAt, putOff bool) (stride, error) {
	ctx, cancel := forRequests(ctx)
	defer cancel()
	s := stride{told: at.told, cursor: at.cursor}
	switch c := &s.cursor; {
	case len(c.Left) > 0:
		batch := c.Left[:min(len(c.Left), stepOrganizations)]
		on, late, err := h.readDomains(ctx, q, &s, batch, putOff)
		c.Left = slices.Concat(on, c.Left[len(batch):])
		c.Late = slices.Concat(c.Late, late)
		return s, err
	case !c.Through && len(c.Late) < mostLate:
		return s, h.readOrganizations(ctx, &s)
	}
	on, late, err := h.readDomains(ctx, q, &s, s.cursor.Late, false)
	s.cursor.Late = slices.Concat(on, late)
	return s, err
}

// forRequests gives requests half of the time that the task has left, so that the
// step can be made of what was answered by then. What is cut off is trouble, and put
// off like any.
func forRequests(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

func (h *walk) readOrganizations(ctx context.Context, s *stride) error {
	page, next, err := h.cfg.API.OrganizationsPage(ctx, s.cursor.From)
	if err != nil {
		return err
	}
	for _, o := range page {
		if o.Err != nil && apiclient.CheckID("id", o.Record.ID) != nil {
			s.missed("an organization: " + o.Err.Error())
			continue
		}
		s.cursor.Left = append(s.cursor.Left, left{ID: o.Record.ID}) // its name may be bad: nothing needs it
	}
	return s.cursor.follow(next, len(page))
}

// domainsPage is the rows of a page of an organization's domains.
type domainsPage struct {
	rows, records [][]byte
	next          string
	err           error
}

func (h *walk) readPage(ctx context.Context, q quest, told Walked, o left) (p domainsPage) {
	domains, next, err := h.cfg.API.DiscoveryDomainsPage(ctx, o.ID, o.From)
	if err != nil {
		return domainsPage{err: err}
	}
	p.next = next
	for _, l := range domains {
		source, kept, err := q.row(ctx, h.cfg, told, o.ID, l)
		if err != nil {
			return domainsPage{err: err}
		}
		if source != nil {
			p.rows, p.records = append(p.rows, source), append(p.records, kept)
		}
	}
	return p
}

// readDomains reads a page of the domains of each of the organizations. on are those
// that have another one, or that could not be asked now; late are those which met
// trouble. The error is what kept all of them from being read, unless those in trouble
// are to be put off.
func (h *walk) readDomains(ctx context.Context, q quest, s *stride, batch []left, putOff bool) (on, late []left, err error) {
	pages, told := make([]domainsPage, len(batch)), s.told
	sideBySide(len(batch), stepOrganizations, func(i int) { pages[i] = h.readPage(ctx, q, told, batch[i]) })
	var held, trouble error
	for i, p := range pages {
		o := batch[i]
		switch j := Judge(p.err); {
		case p.err == nil && p.next != "" && o.Pages+1 < mostPages:
			s.add(p)
			on = append(on, left{ID: o.ID, From: p.next, Pages: o.Pages + 1})
		case p.err == nil && p.next != "":
			s.add(p)
			s.miss(o.ID, fmt.Sprintf("the list of its domains does not end: %d pages", mostPages))
		case p.err == nil:
			s.add(p)
			s.told.Read++
		case j.Outcome == Transient:
			late, trouble = append(late, o), cmp.Or(trouble, p.err)
		case !j.Outcome.Settles():
			on, held = append(on, o), cmp.Or(held, p.err)
		case isGone(p.err) && s.told.Organization == "":
			s.gone(o.ID, j.Reason) // nothing of it is looked for
		case j.Outcome == Cancelled:
			return on, late, p.err
		default:
			s.miss(o.ID, j.Reason)
		}
	}
	if len(on)+len(late) < len(batch) || slices.ContainsFunc(pages, func(p domainsPage) bool { return p.err == nil }) {
		return on, late, nil // what held up the others is met again
	}
	if held == nil && putOff {
		return on, late, nil
	}
	return on, late, cmp.Or(held, trouble)
}

func isGone(err error) bool {
	answer, ok := errors.AsType[*apiclient.Error](err)
	return ok && answer.Status == http.StatusNotFound
}

func (s *stride) add(p domainsPage) {
	s.rows, s.records = append(s.rows, p.rows...), append(s.records, p.records...)
}

// miss counts an organization that is not read.
func (s *stride) miss(organization, why string) {
	s.missed(fmt.Sprintf("organization %s: %s", organization, why))
}

// missed counts an organization that why names.
func (s *stride) missed(why string) {
	s.told.Missed++
	s.told.Why = cmp.Or(s.told.Why, why)
}

// gone counts an organization that was deleted since it was listed.
func (s *stride) gone(organization, why string) {
	s.told.Gone++
	s.cursor.Gone = cmp.Or(s.cursor.Gone, fmt.Sprintf("organization %s: %s", organization, why))
}

// doubtGone says at the end that those which are gone are missed, where no other was
// read: then it is rather that their domains are not to be had where they are asked for.
func (s *stride) doubtGone() {
	if s.told.Gone == 0 || s.told.Read > 0 {
		return
	}
	s.told.Missed, s.told.Gone = s.told.Missed+s.told.Gone, 0
	s.told.Why = cmp.Or(s.told.Why, s.cursor.Gone)
}

// enqueueFound enqueues the rows of which the ledger does not know that they are. For
// each the time runs from now on: a walk may take, or be held up, for as long as a
// token may take to appear. A row that is no work is settled with the reason.
func (h *walk) enqueueFound(ctx context.Context, job Job, q quest, at walkAt) error {
	if at.enqueued == at.stored {
		return nil
	}
	sources, err := h.cfg.Ledger.Rows(ctx, job.Run, at.enqueued, int(at.stored-at.enqueued))
	if err != nil {
		return err
	}
	run := q.run(job, h.cfg.Now().UTC())
	kind := kinds[run.Kind]
	s := Submission{run: run, lane: run.lane(), now: h.cfg.Now}
	rows, noWork := make([]held, len(sources)), make([]bool, len(sources))
	for i, source := range sources {
		row, err := q.parse(source)
		if noWork[i] = err != nil; noWork[i] {
			err = h.cfg.Ledger.Settle(ctx, job.Run, kind.Name, job.Generation, []int64{at.enqueued + int64(i)}, string(outcomeOfBad(err)), err.Error())
		}
		if err != nil {
			return err
		}
		rows[i] = held{row: row}
	}
	return h.enqueue(ctx, tasksOf(s.rowTasks(rows, at.enqueued, noWork)))
}

// refusal says why a record of an organization's list cannot be looked for; nil: it
// can, as far as the list tells.
func refusal(organization string, l listedDomain) error {
	err := cmp.Or(l.Err, apiclient.CheckID("discovery_domain_id", l.Record.ID))
	if err == nil {
		return nil
	}
	return fmt.Errorf("organization %s: %w", organization, err)
}

// nameIn is the part of a text of a record that is kept to name the record: the API
// may send any amount of it.
func nameIn(text string) string {
	const most = 300 // bytes; a name has 255 at the most, an id 128
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// outcomeOfBad is that of a row which is found and cannot be work.
func outcomeOfBad(err error) Outcome {
	if settled, ok := errors.AsType[*settledError](err); ok {
		return settled.outcome
	}
	if _, ok := errors.AsType[refusedRow](err); ok {
		return Refused
	}
	return Invalid
}

func (h *walk) enqueue(ctx context.Context, specs []spec) error {
	failed := make([]error, len(specs))
	const width = 16 // as many connections to Redis as a worker has to spare
	sideBySide(len(specs), width, func(i int) { failed[i] = enqueue(ctx, h.cfg.Enqueuer, specs[i]) })
	for _, err := range failed {
		if err != nil {
			return fmt.Errorf("enqueue what was found: %w", err)
		}
	}
	return nil
}

// handOn enqueues the task that goes on.
func (h *walk) handOn(ctx context.Context, q quest, step int64) (Result, error) {
	if err := enqueue(ctx, h.cfg.Enqueuer, q.onward(step)); err != nil {
		return Result{}, fmt.Errorf("enqueue the next step: %w", err)
	}
	return Result{Outcome: HandedOn}, nil
}

func (h *walk) seal(ctx context.Context, job Job, q quest, at walkAt) (Result, error) {
	if err := q.over(ctx, h.cfg, job, at.told); err != nil {
		return Result{}, err
	}
	if err := h.cfg.Ledger.Seal(ctx, job.Run, at.stored); err != nil {
		return Result{}, err
	}
	return Result{Outcome: Done, Detail: q.came(at.stored, at.told)}, nil
}

// end ends the walk where it is: what was found stays, and what was not come to is
// told.
func (h *walk) end(ctx context.Context, job Job, q quest, why string) error {
	for {
		at, err := h.at(ctx, job.Run)
		if err != nil {
			return err
		}
		// The step of the end says that what was found before is enqueued.
		if err := h.enqueueFound(ctx, job, q, at); err != nil {
			return err
		}
		if at.told.Ended {
			_, err := h.seal(ctx, job, q, at)
			return err
		}
		if err := h.make(ctx, job, q, at.step, at.given(why)); err != nil {
			if o := Judge(err).Outcome; o == Cancelled || o == Paused || o == Superseded {
				return nil // it has ended, or goes on, otherwise
			}
			return err
		}
	}
}

// given is the last step of a walk that is given up.
func (at walkAt) given(why string) stride {
	s := stride{told: at.told, cursor: walkCursor{Gone: at.cursor.Gone}}
	for _, o := range slices.Concat(at.cursor.Left, at.cursor.Late) {
		s.miss(o.ID, why)
	}
	if !at.cursor.Through {
		s.told.Early = why
	}
	s.cursor.Through = true
	return s
}

// recordWalk tells the ledger what came of an execution of a walk's task.
func (m *Mux) recordWalk(ctx context.Context, job Job, t *asynq.Task, j Judgement) error {
	switch {
	case j.Outcome.Well(), j.Outcome == Invalid: // it is another's, or cannot be read: no word about the run
		return nil
	case j.Outcome == Cancelled, j.Outcome == HandedOn, j.Outcome == Stopping, j.Outcome == Paused, j.Outcome == Superseded:
		return nil
	case j.Outcome.Settles():
		q, err := questOf(t)
		if err != nil {
			return err
		}
		return m.walk.end(ctx, job, q, j.Reason)
	}
	if err := m.block(ctx, j); err != nil {
		return err
	}
	return m.cfg.Ledger.NoteWalk(ctx, job.Run, job.Generation, string(j.Outcome)+": "+j.Reason, m.cfg.Now().Add(j.After))
}

func questOf(t *asynq.Task) (quest, error) {
	if t.Type() == TypeSweep {
		return read[SweepPayload](t.Payload())
	}
	return read[WalkPayload](t.Payload())
}

func read[Q quest](raw []byte) (quest, error) {
	var q Q
	err := decodeStrict(raw, &q)
	return q, err
}

// sideBySide does something for each of n things, width of them at a time. What it
// panics with, it panics with.
func sideBySide(n, width int, do func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, width)
	panics := make(chan any, n)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panics <- p
				}
				<-free
			}()
			do(i)
		})
	}
	all.Wait()
	if len(panics) > 0 {
		panic(<-panics)
	}
}
