package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Alone is one row that is submitted by itself, as part of no bulk run.
type Alone struct {
	// ID names the row and its run, which `enqueue runs show` prints; see
	// [CheckRunID]. The same row under the same id again is harmless. Another row
	// under the id is refused by the worker, and so is any row for 30 days after
	// the run was deleted. Empty: one is made.
	ID     string
	Tenant string // empty: DefaultTenant
	Row    Row
	GiveUp time.Duration // how long a token may take to appear; 0: DefaultGiveUp
	// CreatedAt is from when on that counts, at most 30 days ago; zero: now.
	CreatedAt time.Time
}

// Enqueue submits one row that is part of no run, and returns its id. It needs
// the queue alone, no store: the worker that takes the task up writes the row
// down. For more than a handful of rows use [Producer.Begin], which stores them
// first and removes the clients of one organization together.
func (p *Producer) Enqueue(ctx context.Context, a Alone) (id string, err error) {
	if a.CreatedAt.IsZero() {
		a.CreatedAt = time.Now()
	}
	if a.ID == "" {
		a.ID = NewRunID(a.CreatedAt)
	}
	if a.Tenant == "" {
		a.Tenant = DefaultTenant
	}
	if a.GiveUp <= 0 {
		a.GiveUp = DefaultGiveUp
	}
	if err := errors.Join(CheckRunID(a.ID), CheckTenant(a.Tenant)); err != nil {
		return "", err
	}
	if a.Row.kind == "" {
		return "", errors.New("row: missing: create one with Kind.Parse")
	}
	if err := enqueue(ctx, p.client, a.task()); err != nil {
		return "", fmt.Errorf("enqueue row %s: %w", a.ID, err)
	}
	return a.ID, nil
}

// task is the row's task: that of the one row of a run of its own.
func (a Alone) task() spec {
	s := Submission{lane: Fast, run: Run{ID: a.ID, Kind: a.Row.kind, Tenant: a.Tenant, CreatedAt: a.CreatedAt.UTC(), GiveUp: a.GiveUp, Generation: a.Row.generation()}, alone: true, now: time.Now}
	window := []held{{row: a.Row}}
	if a.Row.kind == TypeRemove {
		return s.batches(window, 0, []bool{false})[0].task
	}
	return s.rowTasks(window, 0, []bool{false})[0].task
}

// generation is that of the row's task, and the first of its run. It is a hash of the
// row: the same row enqueued again has the same task, and another row under the same
// id has one of its own, which the ledger then refuses.
func (r Row) generation() int {
	h := sha256.New()
	_, _ = h.Write(r.AppendIdentity([]byte(r.kind + "\x00"))) // a hash returns no error
	_, _ = h.Write(r.template)
	return int(binary.BigEndian.Uint64(h.Sum(nil))>>14) + 1 // exact in Lua and in JSON, as 50 bits are
}

// knownFor is how long the ledger knows of a run that has ended, or was deleted.
const knownFor = 30 * 24 * time.Hour

// register creates the run of a task that came alone. Each execution does: it
// is one step where the run is there already, and a task whose id other rows have
// does nothing. A row that the ledger may have forgotten is not registered again:
// it may have been cancelled.
func (m *Mux) register(ctx context.Context, typ string, e Envelope, payload []byte) error {
	if _, ok := kinds[typ]; !ok {
		return invalid(fmt.Errorf("payload: type %.40q has no single rows", typ))
	}
	rows, err := rowsOf(typ, payload)
	if err != nil {
		return invalid(fmt.Errorf("payload: %w", err))
	}
	if len(rows) != len(e.Rows()) {
		return invalid(fmt.Errorf("payload: %d rows in a task for %d", len(rows), len(e.Rows())))
	}
	for i, item := range e.Rows() {
		if item != int64(i) {
			return invalid(errors.New("payload: a single row has number 0"))
		}
	}
	if m.cfg.Now().Sub(e.CreatedAt) > knownFor {
		if _, _, _, err := m.cfg.Ledger.Standing(ctx, e.Run, typ, e.Generation, e.Rows()); err != nil {
			return fmt.Errorf("the row is more than 30 days old, and the ledger no longer knows whether it was cancelled; "+
				"if it is still wanted, enqueue it under another id (%w)", err)
		}
	}
	return m.cfg.Ledger.Register(ctx, e.Run, typ, e.Tenant, e.Generation, e.CreatedAt, rows)
}

// rowsOf are the rows of a payload, as they would stand in a file.
func rowsOf(typ string, payload []byte) ([][]byte, error) {
	switch typ {
	case TypeCreate:
		var p CreatePayload
		err := json.Unmarshal(payload, &p)
		return [][]byte{p.Template}, err
	case TypeRemove:
		return clientRows(payload)
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, err
	}
	row := map[string]json.RawMessage{}
	for _, c := range kinds[typ].Columns {
		if value, ok := members[c.Name]; ok {
			row[c.Name] = value
		}
	}
	text, err := json.Marshal(row)
	return [][]byte{text}, err
}

func clientRows(payload []byte) ([][]byte, error) {
	var p RemovePayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	rows := make([][]byte, len(p.Clients))
	for i, client := range p.Clients {
		text, err := json.Marshal(map[string]string{"organization_id": p.OrganizationID, "client_id": client})
		if err != nil {
			return nil, err
		}
		rows[i] = text
	}
	return rows, nil
}
