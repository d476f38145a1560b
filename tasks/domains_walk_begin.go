package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// NewWalked is what is told of a walk that has not begun, for the ledger: of one
// organization, or of all where that is empty.
func NewWalked(organization string) ([]byte, error) {
	return json.Marshal(Walked{Organization: organization})
}

// SweepOrder says what is swept, and when. Times are Unix seconds.
type SweepOrder struct {
	Organization string // the only one; empty: all
	Tick         int64  // when it was scheduled, or begun by hand
	SpreadUntil  int64  // until when its looks are spread, from the tick on; 0: they are due at once
	Pending      bool   // pending domains are looked at too, and proven where their token is there
}

// NewSwept is what is told of a sweep that has not begun, for the ledger.
func NewSwept(o SweepOrder) ([]byte, error) {
	switch {
	case o.Tick <= 0:
		return nil, fmt.Errorf("tick: want a Unix second, got %d", o.Tick)
	case o.SpreadUntil != 0 && o.SpreadUntil < o.Tick:
		return nil, fmt.Errorf("checks spread until %d: want no time before the tick, %d", o.SpreadUntil, o.Tick)
	}
	return json.Marshal(Walked{Organization: o.Organization, Tick: o.Tick, SpreadUntil: o.SpreadUntil, Pending: o.Pending})
}

// Walk enqueues a task that goes on from that step with the walk which finds the run's
// rows, in the run's generation. One that is there already is left alone.
func (p *Producer) Walk(ctx context.Context, r Run, step int64) error {
	s, err := p.Begin(r)
	if err != nil {
		return err
	}
	task := WalkPayload{Envelope: s.envelope(), Step: step, GiveUpAt: s.run.CreatedAt.Add(s.run.GiveUp), Priority: r.Priority}.task()
	if r.Kind == TypeRecheck {
		task = SweepPayload{Envelope: s.envelope(), Step: step}.task()
	}
	if err := enqueue(ctx, p.client, task); err != nil {
		return fmt.Errorf("enqueue the scan of run %s: %w", r.ID, err)
	}
	return nil
}

// Judge enqueues the judging of a sweep whose walk is through, in the run's
// generation. One that is there already is left alone.
func (p *Producer) Judge(ctx context.Context, r Run, tick int64) error {
	s, err := p.Begin(r)
	if err != nil {
		return err
	}
	return enqueueJudge(ctx, p.client, s.envelope(), tick)
}

// WalkStands says whether a task stands for the walk that has told this of itself and
// whose next step is that one. The task that made its last step may not have enqueued
// its successor yet, and is looked for first: where it has ended, it has. That none
// stands is true only if the walk's next step is still the same afterwards.
func (s Search) WalkStands(ctx context.Context, r Run, told []byte, step int64) (bool, error) {
	var at Walked
	if err := json.Unmarshal(told, &at); err != nil {
		return false, fmt.Errorf("scan of run %s: read its progress: %w", r.ID, err)
	}
	var ids []string
	for _, from := range slices.Compact([]int64{at.Task, step}) {
		for generation := r.Floor; generation <= r.Generation; generation++ {
			ids = append(ids, walkTaskID(r.ID, from, generation))
		}
	}
	return s.sweepStands(ctx, r, ids)
}

// JudgeStands says whether a task stands that judges the sweep, of whatever generation.
// From before it is sealed one does until it has ended.
func (s Search) JudgeStands(ctx context.Context, r Run) (bool, error) {
	var ids []string
	for generation := r.First; generation <= r.Generation; generation++ {
		ids = append(ids, judgeTaskID(r.ID, generation))
	}
	return s.sweepStands(ctx, r, ids)
}

// sweepStands asks for one task after the other.
func (s Search) sweepStands(ctx context.Context, r Run, ids []string) (bool, error) {
	for _, id := range ids {
		stand, err := s.Queue.Stand(ctx, SweepQueue(r.Tenant), []string{id})
		if err != nil || stand[0] {
			return true, err
		}
	}
	return false, nil
}
