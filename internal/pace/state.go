package pace

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of a tenant's budget. Times are Redis'.
type State struct {
	// At is when the state was read.
	At time.Time
	// PausedUntil is zero unless the tenant is paused.
	PausedUntil time.Time
	// RefusedSince is when the API answered the first 429 of those that have paused the tenant: it has
	// accepted no request since. Zero unless the tenant is paused.
	RefusedSince time.Time
	// Stopped is the operator's stop of the tenant; nil if there is none.
	Stopped *Stop
	// Pauses are those of single operations, by name.
	Pauses []Pause
	// Trials are the pauses that are over, but not known to be: after each of them one request tries
	// whether the API accepts any.
	Trials []Trial
	// Blocks are the blocked operations, by name.
	Blocks []Block
	// UsedLastMinute counts the permits given in the last 55 to 60 seconds; not
	// those of an unlimited rate.
	UsedLastMinute int64
	// Available is how many permits can be taken at once, apart from blocks; 0 during a
	// pause, and the burst for an unlimited rate.
	Available int64
}

// Paused reports whether the API has asked for a pause that is not over, of the tenant or an
// operation.
func (s State) Paused() bool { return !s.PausedUntil.IsZero() || len(s.Pauses) > 0 }

// Waits reports whether the API has asked for a pause, or refuses an operation.
func (s State) Waits() bool { return s.Paused() || len(s.Blocks) > 0 }

// Pause is the pause of an operation that the API has asked for.
type Pause struct {
	Operation string
	Until     time.Time
	// RefusedSince is when the API answered the first 429 of those that have led to it.
	RefusedSince time.Time
}

// Trial is the end of a pause.
type Trial struct {
	// Operation is the paused one, or [All] if the tenant was paused.
	Operation string
	// Next is when the next request may try: in the past unless one was sent a moment ago.
	Next time.Time
	// RefusedSince is when the API answered the first 429 of those that have led to the pause: it is
	// not known to have accepted a request since.
	RefusedSince time.Time
}

// Block is a blocked operation: it does not work at present.
type Block struct {
	// Operation is its name, or [All].
	Operation string `json:"operation"`
	Reason    string `json:"reason"`
	// Fix is what a person should do, as the worker says that was refused; "": not known.
	Fix string `json:"-"`
	// Since is when it was blocked.
	Since time.Time `json:"since"`
	// NextProbe is when the next request is let through as a probe. It is in the past if none
	// was attempted since; a minute later, or after a pause or stop, the block expires.
	NextProbe time.Time `json:"-"`
}

// The fields of the tenant's hash; lua/ knows them too.
const (
	usedField         = "used:"
	pausedField       = "paused:"
	refusedSinceField = "refused_since"
)

// State returns the state of the budget.
func (l *Limiter) State(ctx context.Context) (s State, err error) {
	defer func() {
		if err != nil {
			s = State{}
			err = fmt.Errorf("read the budget of tenant %s: %w", l.cfg.Tenant, err)
		}
	}()
	answer, err := stateScript.Run(ctx, l.cfg.Redis, []string{l.key}).Slice()
	if err != nil {
		return s, err
	}
	now, _ := answer[0].(int64)
	s.At = time.UnixMicro(now).UTC()

	// The fields of the budget: pauses, and the time until which each bucket is spent.
	flat, _ := answer[1].([]any)
	fields := map[string]string{}
	for pair := range slices.Chunk(flat, 2) {
		name := fmt.Sprint(pair[0])
		value := fmt.Sprint(pair[1])
		if err := s.read(now, name, value); err != nil {
			return s, fmt.Errorf("field %s: %w", name, err)
		}
		fields[name] = value
	}
	if s.PausedUntil.IsZero() {
		s.Available = min(l.gcra.available(now, fields["tat"], fields["tat_interval"]),
			l.api.available(now, fields["api_tat"], fields["api_tat_interval"]))
	}
	if !s.PausedUntil.IsZero() {
		s.RefusedSince = refusedSince(fields, "")
	}
	for i, p := range s.Pauses {
		s.Pauses[i].RefusedSince = refusedSince(fields, ":"+p.Operation)
	}

	// Blocked operations, and those whose first request after a pause is awaited.
	blocks, _ := answer[2].([]any)
	for _, block := range blocks {
		b, _ := block.([]any)
		probe, _ := b[1].(int64)
		since, _ := b[3].(int64)
		s.Blocks = append(s.Blocks, Block{Operation: fmt.Sprint(b[0]), Reason: fmt.Sprint(b[2]), Fix: fmt.Sprint(b[4]),
			NextProbe: time.UnixMicro(probe).UTC(), Since: time.UnixMicro(since).UTC()})
	}
	trials, _ := answer[3].([]any)
	for _, trial := range trials {
		t, _ := trial.([]any)
		next, _ := t[1].(int64)
		operation := fmt.Sprint(t[0])
		of := ":" + operation
		if operation == All {
			of = ""
		}
		s.Trials = append(s.Trials, Trial{Operation: operation, Next: time.UnixMicro(next).UTC(),
			RefusedSince: refusedSince(fields, of)})
	}

	// Maps have no order; a state has.
	slices.SortFunc(s.Trials, func(a, b Trial) int { return strings.Compare(a.Operation, b.Operation) })
	l.learn(s)
	slices.SortFunc(s.Pauses, func(a, b Pause) int { return strings.Compare(a.Operation, b.Operation) })
	slices.SortFunc(s.Blocks, func(a, b Block) int { return strings.Compare(a.Operation, b.Operation) })
	return s, nil
}

// refusedSince reads the beginning of a pause; zero: it is not known.
func refusedSince(fields map[string]string, of string) time.Time {
	n, err := strconv.ParseInt(fields[refusedSinceField+of], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// learn stores the end of the tenant's pause, which another process has learned of, or a person has
// ended. One that Redis may not have stays.
func (l *Limiter) learn(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.owed.IsZero() {
		return
	}
	l.paused = time.Time{}
	if !s.PausedUntil.IsZero() {
		l.paused = time.Now().Add(s.PausedUntil.Sub(s.At))
	}
}

// read reads one field of the hash.
func (s *State) read(now int64, field, value string) error {
	if field == stopField {
		stop, err := parseStop(value)
		s.Stopped = &stop
		return err
	}
	if strings.HasPrefix(field, fixField) {
		return nil // see [Block]
	}
	before, after, _ := strings.Cut(value, ":")
	n, err := strconv.ParseInt(before, 10, 64)
	if err != nil {
		return err
	}
	until := time.UnixMicro(min(n, now+longestPause.Microseconds())).UTC()
	if operation, is := strings.CutPrefix(field, pausedField); until.After(s.At) {
		if is {
			s.Pauses = append(s.Pauses, Pause{Operation: operation, Until: until})
		} else if field == "paused_until" {
			s.PausedUntil = until
		}
	}
	if slot := now / slotLength; strings.HasPrefix(field, usedField) && n > slot-slots && n <= slot {
		used, err := strconv.ParseInt(after, 10, 64)
		if err != nil {
			return err
		}
		s.UsedLastMinute += used
	}
	return nil
}
