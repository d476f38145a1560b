package kinds

// A POST is not idempotent and has no idempotency key. So its intent is stored right
// before it is sent, and an execution that finds one lists the templates once the POST
// cannot land any more, twice the request timeout later. A template of the name is the
// row's or another's; only if there is none, and the run is not stopped, a POST follows.
//
// Redis may forget an intent: see lookup. And a POST may land even later, for example
// out of a process that was suspended. A server whose names are unique refuses it. For
// other servers the templates are listed again after the second POST, and the row's
// result names a template that was created twice. None is deleted.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// Create is the kind of rows that create a verifiable credential template. The content
// of a row is the body of the request (specification 4.3).
const Create ledger.Kind = "template:create"

// CreateConfig configures the handler of [Create].
type CreateConfig struct {
	API Templates
	// RequestTimeout is as in [VerifyConfig].
	RequestTimeout time.Duration
}

// clockError is how far the clock of the API, which dates templates, may be behind Redis'.
const clockError = time.Minute

// NewCreate returns the handler of [Create].
func NewCreate(cfg CreateConfig) engine.Handler {
	return engine.One((&create{cfg, &lookup{api: cfg.API, lands: 2 * cfg.RequestTimeout}}).execute)
}

type create struct {
	cfg    CreateConfig
	lookup *lookup
}

// creation is one execution of a row.
type creation struct {
	*create

	x       *engine.Execution
	row     *engine.Row
	request apiclient.TemplateRequest
	former  *post // that may have landed; nil: none
}

func (c *create) execute(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
	request, err := templateOf(row.Content)
	if err != nil {
		return ledger.Result{}, err
	}
	former, err := formerPost(row)
	if err != nil {
		return ledger.Result{}, err
	}
	n := creation{c, x, row, request, former}
	find := n.resolve
	if former == nil { // reads lead to a request then, and do not find the result of one
		ctx, find = x.Beginning(ctx), n.precede
	}
	result, err := find(ctx)
	if err != nil || result.Outcome != "" {
		return result, err
	}
	return n.send(ctx)
}

// templateOf reads a row's content.
func templateOf(content []byte) (apiclient.TemplateRequest, error) {
	request, err := apiclient.DecodeTemplateRequest(content)
	if invalid, ok := errors.AsType[*apiclient.ValidationError](err); ok && invalid.Unknown() {
		return request, &engine.UnknownError{What: "a member (" + err.Error() + ")"}
	}
	return request, err
}

// precede returns the result of a row whose template exists: a request that Redis has
// forgotten may have created it, or another client. An empty result means that the row
// may send its first POST. Whether it may have the name of another template is for the
// API to say.
func (c creation) precede(ctx context.Context) (ledger.Result, error) {
	may, err := c.lookup.mayExist(ctx, c.x, c.request.Name)
	if err != nil || !may {
		return ledger.Result{}, err
	}
	there, err := c.find(ctx)
	there = slices.DeleteFunc(there, func(t apiclient.Template) bool { return len(c.request.Differences(t)) > 0 })
	if err != nil || len(there) == 0 {
		return ledger.Result{}, err
	}
	return c.compare(there)
}

// resolve returns the result of a row whose former POST may have landed. An empty result
// means that it has not, and that the row may send another.
func (c creation) resolve(ctx context.Context) (ledger.Result, error) {
	if left := c.former.at.Add(2 * c.cfg.RequestTimeout).Sub(c.x.Now()); left > 0 {
		return ledger.Result{}, engine.Later("a request to create the template had no answer; the templates are listed once it cannot land any more", left)
	}
	there, err := c.find(ctx)
	if err != nil {
		return ledger.Result{}, err
	}
	if len(there) > 0 || c.former.ID != "" {
		return c.compare(there)
	}
	if c.x.FinishOnly {
		return ledger.Result{}, c.abandon(ctx)
	}
	return ledger.Result{}, nil
}

// abandon ends an execution of a stopped run whose POST has not landed. A paused row
// keeps in its memo that it has sent one.
func (c creation) abandon(ctx context.Context) error {
	if c.x.Cancelled {
		return engine.Settle(ledger.Result{Outcome: ledger.Cancelled, Detail: "the run was cancelled; a request to create the template had no answer, and the template was not created"})
	}
	memo, err := packIntent(c.former)
	if err != nil {
		return err
	}
	c.row.Note.Memo = memo
	if err := c.x.Withdraw(ctx, c.row); err != nil {
		return err
	}
	return engine.Later("the run is stopped; a request to create the template had no answer, and the template was not created", 0)
}

// send sends a POST.
func (c creation) send(ctx context.Context) (ledger.Result, error) {
	own := post{First: c.x.Now()}
	if c.former != nil {
		own.First = c.former.First
	}
	created, err := c.cfg.API.CreateTemplate(c.x.Beginning(ctx, func(ctx context.Context) error { return intend(ctx, c.x, c.row, own) }), c.request)
	switch {
	case err == nil:
		return c.created(ctx, own, created.ID)
	case !engine.NoEffect(err): // the wait counts from the lost answer
		return ledger.Result{}, both(err, amend(ctx, c.x, c.row, own))
	case c.former == nil:
		err = withdraw(ctx, c.x, c.row, err)
	}
	if answer, ok := errors.AsType[*apiclient.Error](err); ok && answer.Status == http.StatusConflict {
		return c.taken(ctx, err)
	}
	return ledger.Result{}, err
}

// created returns the result of a row whose template was created. If the answer of an
// earlier POST was lost, the row waits until that one cannot land any more.
func (c creation) created(ctx context.Context, own post, id string) (ledger.Result, error) {
	if c.former == nil {
		return ledger.Result{Outcome: ledger.Done, Detail: id}, nil
	}
	own.ID = id
	if err := amend(ctx, c.x, c.row, own); err != nil {
		return ledger.Result{}, err
	}
	return ledger.Result{}, engine.Later(fmt.Sprintf("created as %.64q; the templates are listed once an earlier request without an answer cannot land any more", id), 2*c.cfg.RequestTimeout)
}

// taken returns the result of a row whose name another template has.
func (c creation) taken(ctx context.Context, conflict error) (ledger.Result, error) {
	there, err := c.find(ctx)
	if err != nil {
		return ledger.Result{}, err
	}
	if len(there) == 0 {
		return ledger.Result{}, engine.Retry(fmt.Errorf("the API says that the name is taken, but does not list it: %w", conflict))
	}
	return c.compare(there)
}

// find lists the templates and returns those of the name, the oldest first. A record
// outside the specification is skipped if it has another name; otherwise it may be the
// row's template, and is an error. That the list is refused says nothing about the row.
func (c creation) find(ctx context.Context) (found []apiclient.Template, err error) {
	name := c.request.Name
	for t, err := range c.cfg.API.Templates(ctx) {
		if _, bad := errors.AsType[*apiclient.RecordError](err); bad && t.Name != "" && t.Name != name {
			continue
		}
		if err != nil {
			return nil, retryRefused(fmt.Errorf("find the template: %w", err))
		}
		if t.Name == name {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b apiclient.Template) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found, nil
}

// compare returns the result of a row by the templates of its name. One with the content
// of the row is done if a POST of the row may have created it, else unchanged.
func (c creation) compare(there []apiclient.Template) (ledger.Result, error) {
	var before, since []apiclient.Template
	for _, t := range there {
		switch {
		case len(c.request.Differences(t)) > 0:
		case c.former == nil, !t.CreatedAt.IsZero() && t.CreatedAt.Before(c.former.First.Add(-clockError)):
			before = append(before, t)
		default:
			since = append(since, t)
		}
	}
	switch {
	case len(since) > 0:
		return ledger.Result{Outcome: ledger.Done, Detail: describe(since)}, nil
	case c.former != nil && c.former.ID != "": // not listed yet, or deleted meanwhile
		return ledger.Result{Outcome: ledger.Done, Detail: c.former.ID}, nil
	case len(before) > 0:
		return ledger.Result{Outcome: engine.Unchanged, Detail: before[0].ID}, nil
	}
	return ledger.Result{}, engine.Refuse("a template named %.255q exists already as %.64q with other content (%s); rename one of the two",
		c.request.Name, there[0].ID, strings.Join(c.request.Differences(there[0]), ", "))
}

// describe returns the detail of a row whose POSTs may have created all of the templates.
func describe(created []apiclient.Template) string {
	first := created[0].ID
	if len(created) == 1 {
		return first
	}
	var more []string
	for _, t := range created[1:] {
		more = append(more, fmt.Sprintf("%.64q", t.ID))
	}
	return fmt.Sprintf("%s; there is %s with the same name and content: a request of this row whose answer was lost may have landed late; keep one of them", first, strings.Join(more, ", "))
}

// post is a POST that may have landed. It is stored as the row's intent, and as its memo
// while the run is stopped.
type post struct {
	// First is when the row's first POST was sent that may have landed, or shortly before.
	First time.Time `json:"first"`
	// ID is the template that was created after the answer of an earlier POST was lost.
	ID string `json:"id,omitempty"`
	// at is the time of the intent; zero if the POST cannot land any more.
	at time.Time
}

// formerPost returns the POST of an earlier execution that may have landed; nil if there
// is none.
func formerPost(row *engine.Row) (*post, error) {
	p, stored := &post{}, row.Note.Memo
	if row.Intent != nil {
		p.at, stored = row.Intent.At, row.Intent.Value
	}
	if len(stored) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(stored, p); err != nil {
		return nil, &engine.UnknownError{What: "the row's intent or memo (" + err.Error() + ")"}
	}
	return p, nil
}
