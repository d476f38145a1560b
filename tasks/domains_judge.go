package tasks

// The judging of a sweep decides on every domain whose token is gone, once the sweep
// has looked at everything. It asks nobody but Redis, and changes nothing at the tenant:
// each domain that is to be acted on gets a task of its own, whose id makes a second
// run of this one harmless.

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
)

// JudgePayload asks for the decisions at the end of a sweep; it is the payload of
// domains:judge.
type JudgePayload struct {
	Envelope

	Tick int64 `json:"tick"`
}

// Validate checks what does not need the ledger.
func (p JudgePayload) Validate() error {
	if p.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", p.Tick)
	}
	return nil
}

func (p JudgePayload) task() spec {
	return spec{typ: TypeJudge, payload: p, id: judgeTaskID(p.Run, p.Generation), queue: SweepQueue(p.Tenant)}
}

// Names of a tenant's states.
const (
	StateJudged  = "judged"  // Judged, of the last sweep
	StateBreaker = "breaker" // Breaker
)

// Judged is what the last sweep of all organizations has come to, kept as JSON.
type Judged struct {
	Tick          int64     `json:"tick"`
	Run           string    `json:"run"`
	At            time.Time `json:"at"`
	Organizations int64     `json:"organizations"` // that were read
	Present       int64     `json:"present"`
	Absent        int64     `json:"absent"`
	Unknown       int64     `json:"unknown"`
	Newly         int64     `json:"newly_absent"` // domains whose absence began with this sweep
	AtRisk        int64     `json:"at_risk"`      // absent, and not for long enough, or nobody could say this time
	Acted         int64     `json:"acted"`        // for which an action was begun
	Held          int64     `json:"held"`         // not acted on: see Why
	Protected     int64     `json:"protected"`
	Why           string    `json:"why,omitempty"` // why not all that were due were acted on
}

// Breaker stops all actions on a tenant's domains, kept as JSON. It is opened by the
// judging of a sweep, and closed by an operator alone.
type Breaker struct {
	// ID is the run of the sweep that opened it, or that held domains back.
	ID   string    `json:"id,omitempty"`
	Open bool      `json:"open"`
	At   time.Time `json:"at,omitzero"` // when it opened
	Why  string    `json:"why,omitempty"`
	// Confirmed is when an operator has last said that what is gone is gone: an
	// absence that began before is neither counted nor held back any more.
	Confirmed time.Time `json:"confirmed,omitzero"`
}

// readBreaker is the tenant's breaker, closed where none is kept, and its bytes.
func readBreaker(ctx context.Context, memories Memories) (b Breaker, raw []byte, err error) {
	if raw, err = memories.State(ctx, StateBreaker); err != nil || raw == nil {
		return b, nil, err
	}
	if err = json.Unmarshal(raw, &b); err != nil {
		err = fmt.Errorf("read the breaker: %w", err)
	}
	return b, raw, err
}

type judging struct{ cfg Config }

func (h *judging) process(ctx context.Context, job Job, p JudgePayload) (Result, error) {
	left, told, err := h.cfg.Ledger.Left(ctx, job.Run)
	if err != nil {
		return Result{}, err
	}
	if left != 0 {
		return Result{}, later("the sweep has not ended", untilEnded(h.cfg.Now().Sub(job.CreatedAt)))
	}
	var walked Walked
	if err := json.Unmarshal(told, &walked); err != nil {
		return Result{}, fmt.Errorf("read the sweep's scan: %w", err)
	}
	before, raw, err := readBreaker(ctx, h.cfg.Memories)
	if err != nil {
		return Result{}, err
	}
	cases, breaker, judged, err := h.sit(ctx, job, p, walked, before)
	if err != nil {
		return Result{}, err
	}
	if err := h.open(ctx, before, raw, breaker, p); err != nil {
		return Result{}, err
	}
	if err := h.act(ctx, job, p, cases); err != nil {
		return Result{}, err
	}
	h.log(ctx, job, judged)
	if walked.Organization == "" {
		err = h.keep(ctx, judged)
	}
	return Result{Outcome: Done, Detail: judged.String()}, err
}

// untilEnded is when a sweep is asked for again that has not ended at that age: soon for
// one that is over soon, and a hundred times in all for one that is spread over a day.
func untilEnded(age time.Duration) time.Duration {
	const soonest, latest = 2 * time.Second, 10 * time.Minute
	return wholeSeconds(min(max(age/10, soonest), latest))
}

// sit judges the attended domains.
func (h *judging) sit(ctx context.Context, job Job, p JudgePayload, w Walked, breaker Breaker) ([]Case, Breaker, Judged, error) {
	tally, err := h.cfg.Memories.Tally(ctx, p.Tick)
	if err != nil {
		return nil, breaker, Judged{}, err
	}
	s := Sitting{
		Rules: h.cfg.Rules, Breaker: breaker, Tick: p.Tick, Run: job.Run, Organizations: w.Read, Tally: tally, At: h.cfg.Now(),
		Whole: w.Organization == "" && w.Whole(),
	}
	if w.Early != "" {
		s.Early = "the sweep did not reach all organizations: " + w.Early
	}
	for id, err := range h.cfg.Memories.Attended(ctx) {
		if err != nil {
			return nil, breaker, Judged{}, err
		}
		m, raw, err := remembered{h.cfg}.read(ctx, id)
		if err != nil {
			return nil, breaker, Judged{}, err
		}
		if raw == nil { // forgotten by its age
			_, err := h.cfg.Memories.Remember(ctx, id, nil, nil, false, p.Tick)
			if err != nil {
				return nil, breaker, Judged{}, err
			}
			continue
		}
		s.Add(id, m)
	}
	cases, breaker, judged := s.Decide()
	return cases, breaker, judged, nil
}

// open keeps the breaker as the sweep has left it, if it is as it was when the sweep was
// judged, and tells where that opened it.
func (h *judging) open(ctx context.Context, before Breaker, raw []byte, b Breaker, p JudgePayload) error {
	if b != before {
		value, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("store the breaker: %w", err)
		}
		ok, err := h.cfg.Memories.SetState(ctx, StateBreaker, raw, value)
		if err != nil {
			return err
		}
		if !ok {
			return errBreakerMeanwhile
		}
	}
	if !b.Open || b.ID != p.Run || h.cfg.Notices == nil {
		return nil
	}
	return h.cfg.Notices.Tell(ctx, Notice{
		ID: NoticeBreakerOpen + "-" + b.ID, Type: NoticeBreakerOpen, At: b.At,
		Data: NoticeData{Tenant: h.cfg.Tenant, Run: b.ID, Tick: p.Tick, Reason: b.Why},
	})
}

// errBreakerMeanwhile has the sweep judged anew.
var errBreakerMeanwhile = later("the breaker was changed meanwhile", time.Second)

// act enqueues what is to be done.
func (h *judging) act(ctx context.Context, job Job, p JudgePayload, cases []Case) error {
	for _, c := range cases {
		due := c.As == StandsDue && c.Held == ""
		// What had begun is found out, and a domain that there is no more is forgotten.
		if !due && c.As != StandsActing && !c.Missed {
			continue
		}
		task := ActPayload{
			Envelope:       Envelope{V: Version, Tenant: job.Tenant, Run: job.Run, CreatedAt: h.cfg.Now().UTC()},
			OrganizationID: c.OrganizationID, DiscoveryDomainID: c.ID, Tick: p.Tick, Back: c.back, Finish: !due,
		}.task()
		if err := enqueue(ctx, h.cfg.Enqueuer, task); err != nil {
			return fmt.Errorf("enqueue the action on domain %s: %w", c.ID, err)
		}
	}
	return nil
}

// keep keeps what the sweep has come to, unless a later one has been judged.
func (h *judging) keep(ctx context.Context, judged Judged) error {
	raw, err := h.cfg.Memories.State(ctx, StateJudged)
	if err != nil {
		return err
	}
	var before Judged
	if raw != nil {
		if err := json.Unmarshal(raw, &before); err != nil {
			return fmt.Errorf("read the last sweep's summary: %w", err)
		}
	}
	if before.Tick > judged.Tick && !isAhead(before.Tick, h.cfg.Now()) {
		return nil
	}
	value, err := json.Marshal(judged)
	if err != nil {
		return fmt.Errorf("store the sweep's summary: %w", err)
	}
	ok, err := h.cfg.Memories.SetState(ctx, StateJudged, raw, value)
	if err == nil && !ok {
		err = later("another sweep was evaluated meanwhile", time.Second)
	}
	return err
}

func (h *judging) log(ctx context.Context, job Job, j Judged) {
	level := slog.LevelInfo
	if j.Why != "" {
		level = slog.LevelWarn
	}
	h.cfg.Logger.Log(ctx, level, "sweep evaluated", "tenant", job.Tenant, "run", job.Run, "tick", j.Tick, "organizations", j.Organizations,
		"present", j.Present, "absent", j.Absent, "unknown", j.Unknown, "newly_absent", j.Newly, "at_risk", j.AtRisk, "acted", j.Acted,
		"held", j.Held, "protected", j.Protected, "why", j.Why)
}

// String says it for people.
func (j Judged) String() string {
	text := fmt.Sprintf("%d present, %d absent (%d newly), %d unknown: %d at risk, %d to be acted on, %d held back, %d protected",
		j.Present, j.Absent, j.Newly, j.Unknown, j.AtRisk, j.Acted, j.Held, j.Protected)
	if j.Why != "" {
		text += "; " + j.Why
	}
	return text
}
