package tasks

// POST is not idempotent, so a mark is set before it. A run that finds the
// mark lists the templates first: one of that name is the row's, or another's;
// only where there is none, a while after the mark, it POSTs again, and after a
// cancel not even then.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"orgops/apiclient"
)

// CreatePayload creates one template (specification 4.3).
type CreatePayload struct {
	Envelope

	Template json.RawMessage `json:"template"`
}

// Validate holds the template against all rules of the specification.
func (p CreatePayload) Validate() error {
	_, err := apiclient.DecodeTemplateRequest(p.Template)
	return err
}

// mark is what is kept before a POST.
type mark struct {
	At time.Time `json:"at"`
}

const keptMark = "post"

type create struct{ cfg Config }

func (h *create) process(ctx context.Context, job Job, p CreatePayload) (Result, error) {
	request, err := apiclient.DecodeTemplateRequest(p.Template)
	if err != nil {
		return Result{}, err
	}
	former, err := marked(job)
	if err != nil {
		return Result{}, err
	}
	if former != nil {
		if wait := former.At.Add(2 * h.cfg.RequestTimeout).Sub(h.cfg.Now()); wait > 0 {
			return Result{}, later("a request to create the template had no answer; whether it landed is looked up", wholeSeconds(wait))
		}
		there, err := h.find(ctx, request.Name)
		if err != nil {
			return Result{}, err
		}
		if there != nil {
			return h.compare(job, request, *there, true)
		}
		if job.ending {
			return Result{}, cancelled("the run was cancelled; a request to create the template had no answer, and it was not created")
		}
	}
	return h.post(ctx, job, request, former)
}

// marked is the mark of an earlier run, if one stands.
func marked(job Job) (*mark, error) {
	value := job.kept[keptMark]
	if len(value) == 0 {
		return nil, nil
	}
	m := new(mark)
	if err := json.Unmarshal(value, m); err != nil {
		return nil, fmt.Errorf("mark kept for this row: %w", err)
	}
	return m, nil
}

// post sets the mark and creates the template. Where it is sure that nothing
// was created the mark is put back to what it was, so that the next run need
// not wait and list.
func (h *create) post(ctx context.Context, job Job, request apiclient.TemplateRequest, former *mark) (Result, error) {
	if stopping(h.cfg.Stopping) {
		return Result{}, ErrStopping
	}
	if err := begin(ctx, h.cfg.Ledger, job, keptMark, mark{At: h.cfg.Now()}); err != nil {
		return Result{}, err
	}
	created, err := h.cfg.API.CreateTemplate(job.beginning(ctx), request)
	if err == nil {
		return Result{Outcome: Done, Detail: created.ID}, nil
	}
	if !noEffect(err) { // the wait is counted from the lost answer
		_, lost := writeDown(ctx, h.cfg.Ledger, job, keptMark, &mark{At: h.cfg.Now()})
		return Result{}, errors.Join(err, lost)
	}
	err = notBegun(ctx, h.cfg.Ledger, job, keptMark, former, err)
	var answer *apiclient.Error
	if errors.As(err, &answer) && answer.Status == http.StatusConflict {
		return h.taken(ctx, job, request, former != nil, err)
	}
	return Result{}, err
}

// taken looks at the template that has the name already.
func (h *create) taken(ctx context.Context, job Job, request apiclient.TemplateRequest, ours bool, conflict error) (Result, error) {
	there, err := h.find(ctx, request.Name)
	if err != nil {
		return Result{}, err
	}
	if there == nil {
		return Result{}, transient(fmt.Errorf("the API says that the name is taken but does not list it: %w", conflict))
	}
	return h.compare(job, request, *there, ours)
}

// find reads the tenant's templates until one has the name.
func (h *create) find(ctx context.Context, name string) (*apiclient.Template, error) {
	for t, err := range h.cfg.API.Templates(ctx) {
		if err != nil {
			return nil, fmt.Errorf("look for the template: %w", err)
		}
		if t.Name == name {
			return &t, nil
		}
	}
	return nil, nil
}

// compare settles the row by the template that is there. The same content is
// what the row asked for: it is done where an earlier run of the row may have
// made it, and unchanged where it was there before.
func (h *create) compare(job Job, request apiclient.TemplateRequest, there apiclient.Template, ours bool) (Result, error) {
	if differing := request.Differences(there); len(differing) > 0 {
		return Result{}, refused("a template named %.255q is there already as %.64q with other content (%s); rename one of the two", request.Name, there.ID, strings.Join(differing, ", "))
	}
	if !ours || there.CreatedAt.Before(job.CreatedAt) {
		return Result{Outcome: Unchanged, Detail: there.ID}, nil
	}
	return Result{Outcome: Done, Detail: there.ID}, nil
}
