package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Version is the payload version that this worker writes, and the newest
// that it reads. A payload with a newer one is left for a newer worker.
const Version = 1

// TypeConfirm is the second half of [TypeVerify] and, where a sweep has found a pending
// domain's token, of [TypeRecheck].
const TypeConfirm = "domain:confirm"

// Types of tasks that stand for no row. Those of the first group are a run's:
// [TypeWalk] finds the rows of a [TypeVerify] run, [TypeSweep] those of a
// [TypeRecheck] run, which [TypeJudge] judges at its end. The others belong to no run.
const (
	TypeWalk  = "domains:walk"
	TypeSweep = "domains:sweep"
	TypeJudge = "domains:judge"

	TypeRelook = "domain:relook"
	TypeAct    = "domain:act"
)

// class says what a task stands for.
type class int

const (
	ofRows class = iota // rows of a run
	ofRun               // a run, and none of its rows
	ofNone              // neither: the ledger knows nothing of it
)

func classOf(typ string) class {
	switch typ {
	case TypeWalk, TypeSweep, TypeJudge:
		return ofRun
	case TypeRelook, TypeAct:
		return ofNone
	}
	return ofRows
}

// Envelope is the part that every payload has. It is read first and
// leniently, so that a payload whose other members this worker cannot read
// still settles its rows.
type Envelope struct {
	V         int       `json:"v"`
	Tenant    string    `json:"tenant,omitempty"`
	Run       string    `json:"run,omitempty"`
	Item      *int64    `json:"item,omitempty"`  // the row, of a task that is one row
	Items     []int64   `json:"items,omitempty"` // the rows, of a batch
	CreatedAt time.Time `json:"created_at"`      // when the run was, or the row found by its walk; RFC 3339 in UTC
	// Generation is that of the run when the task was enqueued: a run that is
	// resumed has tasks of a higher one, and drops those of the lower ones.
	Generation int `json:"generation,omitempty"`
	// Swept says of a confirm that its row is one of a sweep.
	Swept bool `json:"swept,omitempty"`
}

// Rows are the run's rows that the task stands for.
func (e Envelope) Rows() []int64 {
	if e.Item != nil {
		return []int64{*e.Item}
	}
	return e.Items
}

// kindOfType is the kind of the run that a task of type typ belongs to.
func (e Envelope) kindOfType(typ string) string {
	switch {
	case typ == TypeSweep, typ == TypeJudge, typ == TypeConfirm && e.Swept:
		return TypeRecheck
	case typ == TypeConfirm, typ == TypeWalk:
		return TypeVerify
	}
	return typ
}

// readEnvelope reads the envelope of a task of that type and ignores everything else.
func readEnvelope(typ string, payload []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(payload, &e); err != nil {
		return e, fmt.Errorf("payload: %w", err)
	}
	if e.Tenant == "" {
		e.Tenant = DefaultTenant
	}
	if err := CheckRunID(e.Run); err != nil && (e.Run != "" || classOf(typ) != ofNone) {
		return e, fmt.Errorf("payload: %w", err)
	}
	if classOf(typ) != ofRows {
		if len(e.Rows()) > 0 {
			return e, fmt.Errorf("payload: %s has no rows, but this one names some", typ)
		}
		return e, nil
	}
	if len(e.Rows()) == 0 || (e.Item != nil && len(e.Items) > 0) {
		return e, errors.New("payload: want either item or items")
	}
	if first := slices.Min(e.Rows()); first < 0 {
		return e, fmt.Errorf("payload: row %d: rows count from 0", first)
	}
	return e, nil
}
