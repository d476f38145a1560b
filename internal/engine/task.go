package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"orgops/internal/ledger"
)

// Protocol is the version of [Task] that this package writes, and the highest that it
// reads. Of several dispatchers the one with the highest is active. Raise it with any change
// that an older worker must not ignore, such as new kinds.
const Protocol = 3

// Task is the payload of an asynq task: rows that are executed together.
type Task struct {
	// Version is the [Protocol] of the writer.
	Version int         `json:"v"`
	Kind    ledger.Kind `json:"kind"`
	Part
	// More are rows of other runs of the same kind, for a [BatchHandler].
	More []Part `json:"more,omitempty"`
}

// Part is the rows of one segment that were released together.
type Part struct {
	tenant ledger.Tenant // whose queue has the task
	// Run, Incarnation and Segment name the segment. Rows come early: asynqmon shows the members
	// in this order.
	Run         ledger.RunID       `json:"run"`
	Rows        []TaskRow          `json:"rows"`
	Incarnation ledger.Incarnation `json:"incarnation"`
	Segment     int                `json:"segment"`
	// Token is exchanged for the right to execute the rows.
	Token ledger.Token `json:"token"`
	// Submitted is when the run was created, in Redis' time in ms.
	Submitted int64 `json:"submitted"`
	// GiveUp is that of the run's description, in ms; 0: not set.
	GiveUp int64 `json:"give_up,omitempty"`
	// Max is that of the run's description; 0: not set.
	Max int64 `json:"max,omitempty"`
	// Trace is the W3C traceparent of the submission, or empty.
	Trace string `json:"trace,omitempty"`
}

// TaskRow is a row of a task.
type TaskRow struct {
	Row ledger.Row `json:"row"`
	// Content is the row as it was submitted.
	Content json.RawMessage `json:"content"`
}

// NewTask returns the task for rows of a segment of the run that were released with the
// token.
func NewTask(run ledger.Run, seg ledger.Segment, token ledger.Token, rows ...ledger.ReleasedRow) Task {
	p := Part{
		tenant: seg.Tenant, Run: seg.Run, Incarnation: seg.Incarnation, Segment: seg.Number,
		Token: token, Submitted: run.CreatedAt.UnixMilli(), GiveUp: milliseconds(run.GiveUp), Max: run.Max,
		Trace: run.Trace,
	}
	for _, r := range rows {
		p.Rows = append(p.Rows, TaskRow{Row: r.Row, Content: jsonOf(r.Content)})
	}
	return Task{Version: Protocol, Kind: run.Kind, Part: p}
}

// Add adds the rows of another task of the same kind.
func (t *Task) Add(other Task) { t.More = append(t.More, other.parts()...) }

// parts returns the parts, the task's own first.
func (t Task) parts() []Part { return append([]Part{t.Part}, t.More...) }

// jsonOf returns a row's content, which is JSON so that people can read the payload. The
// content of a damaged row is quoted, and its handler refuses it.
func jsonOf(content []byte) json.RawMessage {
	if json.Valid(content) {
		return content
	}
	quoted, err := json.Marshal(string(content))
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return quoted
}

// milliseconds rounds up: 0 would be not set.
func milliseconds(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// Marshal returns the payload.
func (t Task) Marshal() ([]byte, error) {
	payload, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("write task: %w", err)
	}
	return payload, nil
}

// ID returns the id of the task in asynq, and of its requests in the tenant's log: run, segment,
// first row and token. It has no slash, which the header does not allow, and with which asynqmon
// does not find the task.
func (t Task) ID() string {
	return fmt.Sprintf("%s:%d:%d:%s", t.Run, t.Segment, t.first(), t.Token)
}

func (p Part) first() ledger.Row {
	if len(p.Rows) == 0 {
		return 0
	}
	return p.Rows[0].Row
}

func (p Part) segment() ledger.Segment {
	return ledger.Segment{Tenant: p.tenant, Run: p.Run, Incarnation: p.Incarnation, Number: p.Segment}
}

// numbers returns the numbers of the rows.
func (p Part) numbers() []ledger.Row {
	rows := make([]ledger.Row, len(p.Rows))
	for i, r := range p.Rows {
		rows[i] = r.Row
	}
	return rows
}

// ParseTask reads a payload of the tenant's queue. With an [UnknownError] the task names its rows,
// which can be given back; with any other error it is unusable.
func ParseTask(tenant ledger.Tenant, payload []byte) (Task, error) {
	var t Task
	unknown, err := decode(payload, &t)
	t.tenant = tenant
	for i := range t.More {
		t.More[i].tenant = tenant
	}
	if err == nil {
		err = t.validate()
	}
	if err != nil {
		return Task{}, fmt.Errorf("task: %w", err)
	}
	if t.Version > Protocol {
		return t, &UnknownError{What: fmt.Sprintf("version %d of tasks", t.Version)}
	}
	return t, unknown
}

func (t Task) validate() error {
	for _, p := range t.parts() {
		if err := p.validate(); err != nil {
			return err
		}
	}
	return t.Kind.Validate()
}

func (p Part) validate() error {
	if len(p.Rows) == 0 {
		return errors.New("no rows")
	}
	for _, r := range p.Rows {
		if r.Row < 0 || r.Row >= ledger.SegmentRows {
			return fmt.Errorf("row %d: want 0 to %d", r.Row, ledger.SegmentRows-1)
		}
	}
	return errors.Join(p.segment().Validate(), p.Token.Validate())
}

// Decode reads a row's content, a JSON object, into the value that v points to. The
// error settles the row as invalid if the content is malformed, and is an [UnknownError]
// if it has members that v has not: a newer version has written them.
func Decode(content []byte, v any) error {
	unknown, err := decode(content, v)
	if err != nil {
		return Invalid(fmt.Errorf("row: %w", err))
	}
	return unknown
}

// decode reads JSON into the value that v points to. unknown is an [UnknownError] if it has
// members that v has not; the others are read all the same.
func decode(content []byte, v any) (unknown, err error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	strict := d.Decode(v)
	if _, end := d.Token(); strict == nil && errors.Is(end, io.EOF) {
		return nil, nil
	}
	if err := json.Unmarshal(content, v); err != nil {
		return nil, err
	}
	return &UnknownError{What: "a member (" + strict.Error() + ")"}, nil
}

// UnknownError says that a task or row is of a newer version. The row is given back for
// a newer worker.
type UnknownError struct {
	// What is unknown, such as `kind "domain:audit"`.
	What string
}

// Error names the unknown part.
func (e *UnknownError) Error() string {
	return "this worker does not know " + e.What + ": a newer worker is needed"
}
