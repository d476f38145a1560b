package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"orgops/internal/events"
	"orgops/internal/scan/progress"
)

// StateStore is the part of [Store] that [States] use. Tests put faults in between.
type StateStore interface {
	Domain(ctx context.Context, id string) ([]byte, error)
	Domains(ctx context.Context, ids []string) ([][]byte, error)
	SetDomain(ctx context.Context, w DomainWrite) (ok bool, err error)
	WatchedDomains(ctx context.Context) ([]string, error)
	Counts(ctx context.Context, tick int64) (map[string]int64, error)
	State(ctx context.Context, name string) ([]byte, error)
	SetState(ctx context.Context, name string, former, value []byte) (ok bool, err error)
	CountRevocation(ctx context.Context, name string, at time.Time, most int64) (ok bool, err error)
	CountWithdrawn(ctx context.Context, id string, at time.Time) error
	Clock(ctx context.Context) (time.Time, error)
}

// ErrChanged is returned if another process has changed a state after it was read. Nothing
// was written; read the state again after a second.
var ErrChanged = errors.New("another process has changed the state meanwhile")

// States reads and writes the states of a tenant's domains. It is safe for concurrent use.
type States struct {
	Tenant   string
	Store    StateStore
	Notifier events.Notifier // nil: no event is notified
	// Keep says that proofs of domains are stored that no sweep has found yet, since sweeps will.
	Keep bool
}

// Read returns the state of a domain and its stored bytes; nil bytes: none is stored.
func (s *States) Read(ctx context.Context, domainID string) (state DomainState, raw []byte, err error) {
	if raw, err = s.Store.Domain(ctx, domainID); err != nil || raw == nil {
		return state, nil, err
	}
	state, err = readState(domainID, raw)
	return state, raw, err
}

// ReadNotified is Read for a state whose pending events are notified first.
func (s *States) ReadNotified(ctx context.Context, domainID string) (state DomainState, raw []byte, err error) {
	if state, raw, err = s.Read(ctx, domainID); err == nil {
		raw, err = s.notifyPending(ctx, domainID, raw, &state)
	}
	return state, raw, err
}

func readState(domainID string, raw []byte) (DomainState, error) {
	state, err := ReadState(raw)
	if err != nil {
		return state, fmt.Errorf("domain %s: %w", domainID, err)
	}
	return state, nil
}

// Write replaces the state that was read as former, counts the names for its tick, and
// notifies pending events. It returns the bytes that are stored then, or [ErrChanged].
func (s *States) Write(ctx context.Context, domainID string, former []byte, state *DomainState,
	counted ...string) (raw []byte, err error) {
	return s.write(ctx, domainID, former, state, 0, counted...)
}

// write is Write, and counts the names for the tick of the last complete sweep too; 0: it does not.
func (s *States) write(ctx context.Context, domainID string, former []byte, state *DomainState, complete int64,
	counted ...string) (raw []byte, err error) {
	if s.Notifier == nil {
		state.Pending = nil
	}
	if raw, err = s.replace(ctx, domainID, former, *state, complete, counted...); err != nil {
		return nil, err
	}
	return s.notifyPending(ctx, domainID, raw, state)
}

// replace stores the state, if it differs from former.
func (s *States) replace(ctx context.Context, domainID string, former []byte, state DomainState, complete int64,
	counted ...string) (raw []byte, err error) {
	if raw, err = json.Marshal(state); err != nil {
		return nil, fmt.Errorf("store the state of domain %s: %w", domainID, err)
	}
	if bytes.Equal(raw, former) {
		return raw, nil
	}
	ok, err := s.Store.SetDomain(ctx, DomainWrite{ID: domainID, Former: former, Value: raw, Watched: state.Watched(),
		Tick: state.Tick, Complete: complete, Counted: counted})
	if err == nil && !ok {
		err = ErrChanged
	}
	return raw, err
}

// notifyPending notifies the pending events of a state that is stored as former, then removes
// them from it. If the process is killed in between, the next one notifies them again: each
// is notified at least once, under the same id.
func (s *States) notifyPending(ctx context.Context, domainID string, former []byte,
	state *DomainState) (raw []byte, err error) {
	if len(state.Pending) == 0 {
		return former, nil
	}
	for _, e := range state.Pending {
		if err := s.notify(ctx, e); err != nil {
			return nil, err
		}
	}
	state.Pending = nil
	return s.replace(ctx, domainID, former, *state, 0)
}

func (s *States) notify(ctx context.Context, e events.Event) error {
	if s.Notifier == nil {
		return nil
	}
	e.Data.Tenant = s.Tenant
	if err := s.Notifier.Notify(ctx, e); err != nil {
		return fmt.Errorf("notify %s: %w", e.Type, err)
	}
	return nil
}

// Change reads, changes and writes a state. If another process writes in between it calls
// change again with the newer state.
func (s *States) Change(ctx context.Context, domainID string, change func(*DomainState)) (DomainState, error) {
	state, raw, err := s.Read(ctx, domainID)
	if err != nil {
		return state, err
	}
	return s.change(ctx, domainID, state, raw, func(after *DomainState) []string {
		wasLost := after.IsLost()
		change(after)
		if wasLost && after.Revoked.Done() {
			return []string{countRevoked}
		}
		return nil
	})
}

// Observe stores the observation of a domain whose state was read, as [States.Read] returned
// it. It counts once for its tick, however often it is stored.
func (s *States) Observe(ctx context.Context, o Observation, rules Rules, state DomainState,
	raw []byte) (DomainState, error) {
	return s.change(ctx, o.ID, state, raw, func(after *DomainState) (counted []string) {
		*after, counted = after.Observe(o, rules)
		return counted
	})
}

// change changes and writes a state, and counts the names that change returns.
func (s *States) change(ctx context.Context, domainID string, state DomainState, raw []byte,
	change func(*DomainState) (counted []string)) (DomainState, error) {
	const attempts = 5
	for range attempts {
		after := state.Clone()
		counted := change(&after)
		if raw == nil && after.V == 0 {
			return after, nil // no state is stored, and none is to be
		}
		complete := int64(0)
		if slices.Contains(counted, countRevoked) {
			var err error
			if complete, err = s.alsoLostBy(ctx, state); err != nil {
				return state, err
			}
		}
		_, err := s.write(ctx, domainID, raw, &after, complete, counted...)
		if !errors.Is(err, ErrChanged) {
			return after, err
		}
		if state, raw, err = s.Read(ctx, domainID); err != nil {
			return state, err
		}
	}
	return DomainState{}, ErrChanged
}

// alsoLostBy returns the tick of the last complete sweep if that has found a lost domain lost, and
// so has a later sweep, which may be in progress or one of an organization; 0: it has not.
func (s *States) alsoLostBy(ctx context.Context, lost DomainState) (tick int64, err error) {
	last, _, err := s.Summary(ctx)
	if err != nil || last.Tick >= lost.Tick || lost.Absence.Lost.After(last.At) {
		return 0, err
	}
	return last.Tick, nil
}

// DeleteState deletes the state of a domain that does not exist any more, after its pending
// events.
func (s *States) DeleteState(ctx context.Context, domainID string) error {
	state, raw, err := s.ReadNotified(ctx, domainID)
	if err != nil || raw == nil {
		return err
	}
	ok, err := s.Store.SetDomain(ctx, DomainWrite{ID: domainID, Former: raw, Tick: state.Tick})
	if err == nil && !ok {
		err = ErrChanged
	}
	return err
}

// WatchedDomain is a domain that is watched, by its id.
type WatchedDomain struct {
	ID string
	DomainState
}

// Watched iterates over the watched domains, in no order. With an error that has the id of a
// domain, the state of that domain cannot be read, and the iteration continues. Any other error
// ends it.
func (s *States) Watched(ctx context.Context) iter.Seq2[WatchedDomain, error] {
	return func(yield func(WatchedDomain, error) bool) {
		ids, err := s.Store.WatchedDomains(ctx)
		for page := range slices.Chunk(ids, watchedPage) {
			var values [][]byte
			if values, err = s.Store.Domains(ctx, page); err != nil {
				break
			}
			for i, value := range values {
				if value == nil { // it has expired
					continue
				}
				state, unreadable := readState(page[i], value)
				if !yield(WatchedDomain{page[i], state}, unreadable) {
					return
				}
			}
		}
		if err != nil {
			yield(WatchedDomain{}, err)
		}
	}
}

// Unreadable is what to do about a state that cannot be read.
const Unreadable = "run the newest orgops that has used this Redis; if the state is damaged, restore Redis from a backup, " +
	"or delete the key orgops:v3:{tenant:TENANT}:watch:domain:ID: what was revoked of the domain is then not restored"

// Verified notifies that a domain was verified by the proof at e.At, and stores the proof of the
// token of that hash; "": it is not known. If a revocation had set the domain to pending, it stores
// that the domain is restored, notifies that instead, and reports it. To repeat it is harmless.
func (s *States) Verified(ctx context.Context, e events.Event, token string, proof []byte) (restored bool, err error) {
	restored, err = s.restored(ctx, e, token, proof)
	if err != nil || restored {
		return restored, err
	}
	return false, s.notify(ctx, e)
}

// restored reports whether the event's domain is restored, also if an execution that was
// killed has stored that.
func (s *States) restored(ctx context.Context, e events.Event, token string, proof []byte) (restored bool, err error) {
	id := e.Data.DiscoveryDomainID
	organization := e.Data.OrganizationID
	_, err = s.Change(ctx, id, func(state *DomainState) {
		if state.V == 0 && s.Keep && token != "" {
			*state = DomainState{V: stateVersion, OrganizationID: organization, Domain: e.Data.Domain, TokenHash: token}
		}
		if state.Proven == nil && state.OrganizationID == organization && token != "" && state.TokenHash == token {
			state.Proven = &Proof{second(e.At), proof}
		}
		took := state.IsPending() && state.OrganizationID == organization
		restored = took || state.RestoredAt(e.At)
		if took {
			state.Restored(id, e.At, proof)
		}
	})
	return restored, err
}

// SummaryState is the name of the tenant's state that has the [Summary] of its last complete sweep.
const SummaryState = "summary"

// Summary returns the summary of the last complete sweep and its stored bytes; nil bytes: none
// is stored.
func (s *States) Summary(ctx context.Context) (summary Summary, raw []byte, err error) {
	if raw, err = s.Store.State(ctx, SummaryState); err == nil && raw != nil {
		err = json.Unmarshal(raw, &summary)
	}
	if err != nil {
		return summary, nil, fmt.Errorf("summary of the sweeps of tenant %s: %w", s.Tenant, err)
	}
	return summary, raw, nil
}

// DeleteTenant removes what is stored about a tenant as a whole: its watched domains, counted
// revocations, ticks, and the summary of its last sweep. States of domains stay until they
// expire, since no other tenant has domains of their ids.
func (s *Store) DeleteTenant(ctx context.Context) error {
	keys := []string{s.key("watched"), s.key("revocations"), s.key("withdrawn"), s.key("state:" + ticksState),
		s.key("state:" + SummaryState)}
	if err := s.rdb.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("remove the state of sweeps: %w", err)
	}
	return nil
}

// Conclude stores the summary of a sweep whose run has ended, unless the sweep was not complete
// or a later one has a summary. To repeat it is harmless.
func (s *States) Conclude(ctx context.Context, run string, p progress.Scan) error {
	if p.Organization != "" || !p.Ended || !p.Complete() || p.Tick <= 0 {
		return nil
	}
	now, err := s.Store.Clock(ctx)
	if err != nil {
		return err
	}
	last, former, err := s.Summary(ctx)
	if err != nil || (last.Tick >= p.Tick && !isAhead(last.Tick, now)) {
		return err
	}
	counts, err := s.Store.Counts(ctx, p.Tick)
	if err != nil {
		return err
	}
	value, err := json.Marshal(Summary{
		Tick: p.Tick, Run: run, At: second(now), Organizations: p.Read,
		Present: counts[statePresent], Absent: counts[stateAbsent], Unknown: counts[stateUnknown], Lost: counts[countLost],
		Unproven: counts[countUnproven],
	})
	if err != nil {
		return fmt.Errorf("store the summary of sweep %s: %w", run, err)
	}
	ok, err := s.Store.SetState(ctx, SummaryState, former, value)
	if err == nil && !ok {
		err = ErrChanged
	}
	return err
}
