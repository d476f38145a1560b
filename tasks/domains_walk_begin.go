package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"orgops/apiclient"
)

// CheckOrganization refuses what cannot be an organization's id.
func CheckOrganization(id string) error { return apiclient.CheckID("organization_id", id) }

// NewWalked is what is told of a walk that has not begun, for the ledger: of one
// organization, or of all where that is empty.
func NewWalked(organization string) ([]byte, error) {
	return json.Marshal(Walked{Organization: organization})
}

// Walk enqueues the task of a step of the walk that finds the run's rows, in the run's
// generation. One that is there already is left alone.
func (p *Producer) Walk(ctx context.Context, r Run, step int64) error {
	s, err := p.Begin(r)
	if err != nil {
		return err
	}
	payload := WalkPayload{Envelope: s.envelope(), Step: step, GiveUpAt: s.run.CreatedAt.Add(s.run.GiveUp), Priority: r.Priority}
	if err := enqueue(ctx, p.client, payload.task()); err != nil {
		return fmt.Errorf("enqueue the walk of run %s: %w", r.ID, err)
	}
	return nil
}

// WalkStands says whether a task stands for the walk whose next step is that one.
// The task of the step before may have made it and not enqueued its successor yet,
// and is looked for first: where it has ended, it has. That none stands is true only
// if the walk's next step is still the same afterwards.
func (s Search) WalkStands(ctx context.Context, r Run, step int64) (bool, error) {
	var ids []string
	for at := max(step-1, 0); at <= step; at++ {
		for generation := r.Floor; generation <= r.Generation; generation++ {
			ids = append(ids, walkTaskID(r.ID, at, generation))
		}
	}
	for _, id := range ids {
		stand, err := s.Queue.Stand(ctx, SweepQueue(r.Tenant), []string{id})
		if err != nil || stand[0] {
			return true, err
		}
	}
	return false, nil
}
