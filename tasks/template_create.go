package tasks

// POST is not idempotent, so a mark is set before it. A run that finds the
// mark lists the templates first: one of that name is the row's, or another's;
// only where there is none, a while after the mark, it POSTs again, and after a
// cancel not even then. Of two executions at once the ledger lets one set the
// mark, and the other sees that before it sends.
//
// A request whose answer was lost may land later than all that. A server whose
// names are unique refuses it then; for one whose names are not, the templates
// are listed once more, a while after the second request, and a double is told.

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	At    time.Time `json:"at"`              // of the latest request, or of its lost answer
	First time.Time `json:"first,omitzero"`  // of the row's first request; zero: At is
	ID    string    `json:"id,omitempty"`    // of the template made after an earlier answer was lost
	Nonce string    `json:"nonce,omitempty"` // no two executions set the same mark
}

// first is when the row's first request was sent.
func (m mark) first() time.Time {
	if m.First.IsZero() {
		return m.At
	}
	return m.First
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
			return Result{}, later("a request to create the template had no answer; checking whether it took effect", wholeSeconds(wait))
		}
		there, err := h.find(ctx, request.Name)
		if err != nil {
			return Result{}, stillUnknown(err)
		}
		if len(there) > 0 || former.ID != "" {
			return h.compare(job, request, there, former)
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
		return nil, fmt.Errorf("intent stored for this row: %w", err)
	}
	return m, nil
}

// next is the mark of a request that follows the former's.
func (h *create) next(former *mark) mark {
	m := mark{At: h.cfg.Now(), Nonce: rand.Text()}
	if former != nil {
		m.First = former.first()
	}
	return m
}

// post sets the mark and creates the template. Where it is sure that nothing
// was created the mark is put back to what it was, so that the next run need
// not wait and list.
func (h *create) post(ctx context.Context, job Job, request apiclient.TemplateRequest, former *mark) (Result, error) {
	if stopping(h.cfg.Stopping) {
		return Result{}, ErrStopping
	}
	own := h.next(former)
	if err := begin(ctx, h.cfg.Ledger, job, keptMark, own); err != nil {
		return Result{}, err
	}
	created, err := h.cfg.API.CreateTemplate(job.beginning(ctx), request)
	if err == nil {
		return h.made(ctx, job, created, former)
	}
	if !noEffect(err) { // the wait is counted from the lost answer
		own.At = h.cfg.Now()
		_, lost := writeDown(ctx, h.cfg.Ledger, job, keptMark, &own)
		return Result{}, errors.Join(err, lost)
	}
	err = notBegun(ctx, h.cfg.Ledger, job, keptMark, former, err)
	var answer *apiclient.Error
	if errors.As(err, &answer) && answer.Status == http.StatusConflict {
		return h.taken(ctx, job, request, former, err)
	}
	return Result{}, err
}

// made settles the row with the template that was created, or, where an earlier
// answer was lost, keeps its id until that request can land no more.
func (h *create) made(ctx context.Context, job Job, created apiclient.Template, former *mark) (Result, error) {
	if former == nil {
		return Result{Outcome: Done, Detail: created.ID}, nil
	}
	own := h.next(former)
	own.ID = created.ID
	if _, err := writeDown(ctx, h.cfg.Ledger, job, keptMark, &own); err != nil {
		return Result{}, err
	}
	return Result{}, later(fmt.Sprintf("created as %.64q; checking whether an earlier request without an answer has created another", created.ID), wholeSeconds(2*h.cfg.RequestTimeout))
}

// taken looks at the template that has the name already.
func (h *create) taken(ctx context.Context, job Job, request apiclient.TemplateRequest, former *mark, conflict error) (Result, error) {
	there, err := h.find(ctx, request.Name)
	if err != nil && former != nil {
		err = stillUnknown(err)
	}
	if err != nil {
		return Result{}, err
	}
	if len(there) == 0 {
		return Result{}, transient(fmt.Errorf("the API says that the name is taken but does not list it: %w", conflict))
	}
	return h.compare(job, request, there, former)
}

// find reads the tenant's templates of that name, the oldest first. A template outside
// the specification is none of them if it has another name; otherwise it may be one,
// and is an error.
func (h *create) find(ctx context.Context, name string) (found []apiclient.Template, err error) {
	for t, err := range h.cfg.API.Templates(ctx) {
		if _, bad := errors.AsType[*apiclient.RecordError](err); bad && t.Name != "" && t.Name != name {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the template: %w", err)
		}
		if t.Name == name {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b apiclient.Template) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found, nil
}

// stillUnknown keeps a refusal of the list from settling a row of which a request
// may have landed.
func stillUnknown(err error) error {
	if Judge(err).Outcome == Refused {
		return transient(err)
	}
	return err
}

// compare settles the row by the templates of its name. The same content is
// what the row asked for: it is done where a request of the row may have made
// it, and unchanged where it was there before.
func (h *create) compare(job Job, request apiclient.TemplateRequest, there []apiclient.Template, former *mark) (Result, error) {
	var before, since []apiclient.Template
	for _, t := range there {
		switch {
		case len(request.Differences(t)) > 0:
		case former == nil, !t.CreatedAt.IsZero() && t.CreatedAt.Before(former.first().Add(-clocksDiffer)):
			before = append(before, t)
		default:
			since = append(since, t)
		}
	}
	switch {
	case len(since) > 0:
		return Result{Outcome: Done, Detail: h.tellDouble(job, since)}, nil
	case former != nil && former.ID != "": // not listed yet, or removed meanwhile
		return Result{Outcome: Done, Detail: former.ID}, nil
	case len(before) > 0:
		return Result{Outcome: Unchanged, Detail: before[0].ID}, nil
	}
	differing := request.Differences(there[0])
	return Result{}, refused("a template named %.255q exists already as %.64q with other content (%s); rename one of the two", request.Name, there[0].ID, strings.Join(differing, ", "))
}

// clocksDiffer is how far the server's clock, by which templates are dated, may
// be behind ours.
const clocksDiffer = time.Minute

// tellDouble is the detail of a row whose requests may have made all of these.
func (h *create) tellDouble(job Job, made []apiclient.Template) string {
	if len(made) == 1 {
		return made[0].ID
	}
	var more []string
	for _, t := range made[1:] {
		more = append(more, fmt.Sprintf("%.64q", t.ID))
	}
	h.cfg.Logger.Warn("template created more than once", "tenant", h.cfg.Tenant, "run", job.Run, "task_id", job.TaskID, "template", made[0].ID, "besides", more)
	return fmt.Sprintf("%s; of the same name and content there is %s too: a request of this row whose answer was lost may have landed late; keep one of them", made[0].ID, strings.Join(more, ", "))
}
