package deliveries

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// Queue returns the name of an endpoint's queue in asynq. Each endpoint has one, so that a slow
// receiver holds up no other one.
func Queue(tenant, endpoint string) string { return tenant + ".webhook." + endpoint }

// TaskType is the type of the tasks in asynq.
const TaskType = "webhook:deliver"

const (
	// version is the payload version that this package writes, and the highest that it
	// reads. Raise it with any change that an older worker must not ignore.
	version = 1
	// timeout is longer than an attempt takes.
	timeout = 10 * time.Minute
	// maxRetry keeps asynq's own limit out of reach: asynq applies it also to executions
	// that count no attempt. It is below 2^31 for asynq's Lua scripts.
	maxRetry = 1 << 30
	// maxDocument bounds an event's document, in bytes.
	maxDocument = 20 << 10
)

// envelope is the part of the payload that every version has.
type envelope struct {
	Version   int       `json:"v"`
	Tenant    string    `json:"tenant"`
	CreatedAt time.Time `json:"created_at"` // when the event was notified; RFC 3339 in UTC
	Endpoint  string    `json:"endpoint"`
}

type payload struct {
	envelope

	ID    string          `json:"id"` // the event's
	Event json.RawMessage `json:"event"`
}

// taskID returns the id of the task, which is the same if the event is notified again.
func (p payload) taskID() string {
	return fmt.Sprintf("webhook-%s-%s-%s", p.Tenant, p.Endpoint, p.ID)
}

func (p payload) task() (*asynq.Task, []asynq.Option, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, nil, fmt.Errorf("payload of %s: %w", p.taskID(), err)
	}
	return asynq.NewTask(TaskType, body), []asynq.Option{
		asynq.TaskID(p.taskID()), asynq.Queue(Queue(p.Tenant, p.Endpoint)), asynq.MaxRetry(maxRetry),
		asynq.Timeout(timeout),
	}, nil
}

func readEnvelope(body []byte) (e envelope, err error) {
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("payload: %w", err)
	}
	return e, nil
}

// readPayload reads a whole payload. Members that a newer worker has added are ignored.
func readPayload(body []byte) (p payload, err error) {
	if err = json.Unmarshal(body, &p); err == nil {
		err = p.validate()
	}
	if err != nil {
		return p, fmt.Errorf("payload: %w", err)
	}
	return p, nil
}

func (p payload) validate() error {
	switch {
	case p.Endpoint == "":
		return errors.New("endpoint is missing")
	case p.ID == "":
		return errors.New("id is missing")
	case len(p.Event) == 0 || len(p.Event) > maxDocument:
		return fmt.Errorf("event: want 1 to %d bytes, got %d", maxDocument, len(p.Event))
	}
	return nil
}
