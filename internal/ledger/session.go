package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

// Session is the life of a worker process. A row in progress belongs to one.
type Session struct {
	ID SessionID `json:"-"`
	// Version is the worker's, for people, as are the times of its start and last renewal, how many
	// tasks it executes and how many it could, and whether it refuses changed settings.
	Version string    `json:"version"`
	Host    string    `json:"host,omitempty"`
	Started time.Time `json:"started,omitzero"`
	SeenAt  time.Time `json:"-"`
	Busy    int       `json:"busy"`
	Places  int       `json:"places"`
	Refused bool      `json:"settings_refused,omitempty"`
	// Protocol is the version of the protocol between workers. Of several dispatchers
	// the one with the highest number is active.
	Protocol int `json:"protocol"`
	// Tenants and Kinds are served by the worker.
	Tenants []Tenant `json:"tenants"`
	Kinds   []Kind   `json:"kinds"`
}

// Renew registers a session or renews it. A worker calls it before its first [Ledger.Begin]
// and then every [RenewEvery]. It works while Redis is at maxmemory.
func (l *Ledger) Renew(ctx context.Context, s Session) (r Renewal, err error) {
	defer wrap(&err, "renew session %s", s.ID)
	if err := s.ID.Validate(); err != nil {
		return r, err
	}
	about, err := json.Marshal(s)
	if err != nil {
		return r, err
	}
	a, err := l.onSessions(ctx, renewScript, string(s.ID), about)
	if err != nil {
		return r, err
	}
	return Renewal{New: a.int(1) == 1, Now: time.UnixMilli(a.int(2))}, nil
}

// Renewal is the answer to the renewal of a session.
type Renewal struct {
	New bool      // Redis did not know the session: if it was renewed before, Redis has lost data
	Now time.Time // Redis' time
}

// EndSession forgets a session. A worker calls it when it has no rows any more.
func (l *Ledger) EndSession(ctx context.Context, id SessionID) error {
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRem(ctx, sessionKey("seen"), string(id))
		p.HDel(ctx, sessionKey("about"), string(id))
		return nil
	})
	if err != nil {
		return fmt.Errorf("end session %s: %w", id, err)
	}
	return nil
}

// Sessions returns the living sessions, the one that was renewed last first.
func (l *Ledger) Sessions(ctx context.Context) ([]Session, error) { return l.sessions(ctx, "living") }

// Died returns the sessions that have died in the last day, the one that was renewed last first.
func (l *Ledger) Died(ctx context.Context) ([]Session, error) { return l.sessions(ctx, "dead") }

func (l *Ledger) sessions(ctx context.Context, which string) ([]Session, error) {
	a, err := l.onSessions(ctx, sessionsScript, which)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var all []Session
	for i := range a.list(1) {
		entry := a.list(1).list(i)
		var s Session
		if err := json.Unmarshal([]byte(entry.text(1)), &s); err != nil {
			return nil, fmt.Errorf("session %s: %w", untrusted.Value(entry.text(0)), err)
		}
		s.ID = SessionID(entry.text(0))
		s.SeenAt = fromMillis(entry.int(2))
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

// Reclaimed is a segment with rows that a dead session executed.
type Reclaimed struct {
	Segment Segment
	Session SessionID
	// Rows is the number of rows that are due again.
	Rows int
}

// ReclaimDead makes due the rows of a tenant that dead sessions execute. It returns the segments
// that have such rows. Where there are none it takes two round trips, whatever the number of
// segments. If some segments fail it returns the others and an error.
func (l *Ledger) ReclaimDead(ctx context.Context, t Tenant) (all []Reclaimed, err error) {
	defer wrap(&err, "reclaim rows of dead sessions of %s", t)
	fields, err := l.rdb.HKeys(ctx, tenantKey(t, "sessions")).Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(fields)
	var ids []SessionID
	for _, field := range fields {
		id, _, _ := strings.Cut(field, ",")
		ids = append(ids, SessionID(id))
	}
	dead, failed := l.Dead(ctx, slices.Compact(ids)...)
	for _, field := range fields {
		id, name, _ := strings.Cut(field, ",")
		if !slices.Contains(dead, SessionID(id)) {
			continue
		}
		n := 0
		seg, err := ParseSegment(t, name)
		if err == nil {
			n, _, err = l.Reclaim(ctx, seg, SessionID(id))
		}
		if n > 0 {
			all = append(all, Reclaimed{Segment: seg, Session: SessionID(id), Rows: n})
		}
		failed = errors.Join(failed, err)
	}
	return all, failed
}

// Reclaim makes due the rows of a segment that a dead session executes: at once, or after a wait
// that grows if executions of the row have died before: see [Checkpoint.Died]. It returns the
// number of rows.
func (l *Ledger) Reclaim(ctx context.Context, seg Segment, dead SessionID) (n int, r Receipt, err error) {
	defer wrap(&err, "segment %s: reclaim", seg)
	for from := 0; from >= 0; {
		a, err := l.onSegment(ctx, reclaimScript, seg, from, scriptRows, string(dead))
		if err != nil {
			return n, r, err
		}
		n += int(a.list(6).int(0))
		from = int(a.list(6).int(1))
		r.add(parseReceipt(a))
	}
	return n, r, nil
}
