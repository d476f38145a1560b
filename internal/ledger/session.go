package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const (
	// RenewEvery is how often a worker renews its session.
	RenewEvery = 5 * time.Second
	// DeadAfter is how long after its last renewal a session is dead: two renewals may
	// be lost.
	DeadAfter = 15 * time.Second
	// silentFleet is the time without any renewal after which Redis counts as having been
	// away.
	silentFleet = 2 * RenewEvery
)

// Session is the life of a worker process: begun rows belong to one.
type Session struct {
	ID SessionID `json:"-"`
	// Version is the worker's, for people.
	Version string `json:"version"`
	// Protocol is the version of the protocol between workers. Of several dispatchers
	// the one with the highest number is active.
	Protocol int `json:"protocol"`
	// Tenants and Kinds are served by the worker.
	Tenants []Tenant `json:"tenants"`
	Kinds   []Kind   `json:"kinds"`
}

// Renew registers a session or renews it. A worker calls it before its first [Ledger.Begin]
// and then every [RenewEvery]. It works while Redis is at maxmemory.
func (l *Ledger) Renew(ctx context.Context, s Session) error {
	if err := s.ID.Validate(); err != nil {
		return err
	}
	about, err := json.Marshal(s)
	if err == nil {
		_, err = l.onSessions(ctx, renewScript, string(s.ID), about)
	}
	if err != nil {
		return fmt.Errorf("renew session %s: %w", s.ID, err)
	}
	return nil
}

// EndSession forgets a session. A worker calls it when it has no rows any more.
func (l *Ledger) EndSession(ctx context.Context, id SessionID) error {
	if _, err := l.onSessions(ctx, forgetScript, string(id)); err != nil {
		return fmt.Errorf("end session %s: %w", id, err)
	}
	return nil
}

// Sessions returns the living sessions, the one that was renewed last first.
func (l *Ledger) Sessions(ctx context.Context) ([]Session, error) {
	a, err := l.onSessions(ctx, sessionsScript)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var all []Session
	for i := range a.list(1) {
		entry := a.list(1).list(i)
		var s Session
		if err := json.Unmarshal([]byte(entry.text(1)), &s); err != nil {
			return nil, fmt.Errorf("session %s: %w", quoted(entry.text(0)), err)
		}
		s.ID = SessionID(entry.text(0))
		all = append(all, s)
	}
	return all, nil
}

// Dead returns the sessions that were not renewed for [DeadAfter] while other sessions
// were. The time in which no session was renewed does not count: Redis was away, or its
// clock jumped.
func (l *Ledger) Dead(ctx context.Context, ids ...SessionID) ([]SessionID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	a, err := l.onSessions(ctx, deadScript, texts(ids)...)
	if err != nil {
		return nil, fmt.Errorf("find dead sessions: %w", err)
	}
	var dead []SessionID
	for _, id := range a.list(1).texts() {
		dead = append(dead, SessionID(id))
	}
	return dead, nil
}
