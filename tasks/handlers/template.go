package handlers

// A POST is not idempotent and has no idempotency key. So its intent is stored right
// before it is sent, and an execution that finds one lists the templates once that POST
// cannot land any more, twice the request timeout later. A template with name and content
// of the row is the row's. If there is none, and the run is not stopped, a POST follows.
// The API refuses a name that is taken, so a POST whose intent Redis has forgotten makes no
// second template.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Create is the kind of rows that create a verifiable credential template.
const Create ledger.Kind = tasks.TypeCreate

// Templates is the part of the API's client that creations need.
type Templates interface {
	CreateTemplate(ctx context.Context, r schema.TemplateRequest,
		intent apiclient.Intent) (schema.Template, error)
	Templates(ctx context.Context) iter.Seq2[schema.Template, error]
}

// CreateConfig configures the handler of [Create].
type CreateConfig struct {
	API func(apiclient.Binding) Templates
	// RequestTimeout is as in [VerifyConfig].
	RequestTimeout time.Duration
}

// NewCreate returns the handler of [Create].
func NewCreate(cfg CreateConfig) engine.Handler {
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		request, err := schema.DecodeTemplateRequest(row.Content)
		if invalid, ok := errors.AsType[*schema.ValidationError](err); ok && invalid.Unknown() {
			return engine.Fail(&engine.UnknownError{What: "a member (" + err.Error() + ")"})
		}
		if err != nil {
			return engine.Fail(err)
		}
		return (&creation{cfg, x, row, request}).execute(ctx)
	})
}

// creation is one execution of a row.
type creation struct {
	cfg     CreateConfig
	x       *engine.Execution
	row     *engine.Row
	request schema.TemplateRequest
}

func (c *creation) execute(ctx context.Context) *engine.Consequence {
	// The templates show whether a former POST has landed, once it cannot land any more.
	former := c.row.Intent
	if former != nil {
		if left := former.At.Add(2 * c.cfg.RequestTimeout).Sub(c.x.Now()); left > 0 {
			return engine.Later(
				"a request to create the template had no answer; the templates are listed once it cannot land any more", left)
		}
		same, _, err := c.find(ctx)
		switch {
		case err != nil:
			return engine.Fail(err)
		case same != nil:
			return engine.Settle(ledger.Result{Outcome: ledger.Done, Detail: same.ID})
		case c.x.Cancelled:
			return engine.Settle(ledger.Result{
				Outcome: ledger.Cancelled,
				Detail:  "the run was cancelled; a request to create the template had no answer, and the template was not created",
			})
		case c.x.FinishOnly:
			return engine.Fail(stopped(ctx, c.x, c.row))
		}
	}

	// None is there, or none was requested.
	created, err := c.cfg.API(c.x.Fenced()).CreateTemplate(ctx, c.request, func(ctx context.Context) error {
		return putIntent(ctx, c.x.Intend, c.row, struct{}{})
	})
	answer, answered := errors.AsType[*apiclient.Error](err)
	switch {
	case err == nil:
		return engine.Settle(ledger.Result{Outcome: ledger.Done, Detail: created.ID})
	case answered && answer.Status == http.StatusConflict:
		return c.taken(ctx, err)
	case !engine.NoEffect(err): // the wait counts from the lost answer
		err = both(err, putIntent(ctx, c.x.Amend, c.row, struct{}{}))
	case former == nil:
		err = withdraw(ctx, c.x, c.row, err)
	}
	return engine.Fail(err)
}

// taken ends a row whose name a template has already, as the API's answer
// says: the row's, if an earlier POST has created it, or another's.
func (c *creation) taken(ctx context.Context, conflict error) *engine.Consequence {
	ours := c.row.Intent != nil
	if !ours {
		conflict = withdraw(ctx, c.x, c.row, conflict)
	}
	same, other, err := c.find(ctx)
	switch {
	case err != nil:
		return engine.Fail(err)
	case same != nil && ours:
		return engine.Settle(ledger.Result{Outcome: ledger.Done, Detail: same.ID})
	case same != nil:
		return engine.Settle(unchanged(same.ID))
	case other != nil:
		return engine.Fail(engine.Refuse("a template named %s exists already as %s with other content (%s); "+
			"rename one of the two",
			untrusted.Quote(c.request.Name, 255), untrusted.Value(other.ID), strings.Join(c.request.Differences(*other), ", ")))
	}
	return engine.Fail(engine.Retry(fmt.Errorf("the API says that the name is taken, but does not list it: %w", conflict)))
}

// find lists the templates, and returns the oldest of the row's name with its content, and
// with other content. A record outside the specification is skipped if it has another name;
// otherwise it may be the row's template, and is an error. That the list is refused says
// nothing about the row.
func (c *creation) find(ctx context.Context) (same, other *schema.Template, err error) {
	var named []schema.Template
	for t, err := range c.cfg.API(c.x.Unfenced()).Templates(ctx) {
		if _, bad := errors.AsType[*apiclient.RecordError](err); bad && t.Name != "" && t.Name != c.request.Name {
			continue
		}
		if err != nil {
			return nil, nil, retryRefused(fmt.Errorf("find the template: %w", err))
		}
		if t.Name == c.request.Name {
			named = append(named, t)
		}
	}
	slices.SortStableFunc(named, func(a, b schema.Template) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for i := range named {
		if len(c.request.Differences(named[i])) > 0 {
			other = &named[i]
		} else {
			same = &named[i]
		}
	}
	return same, other, nil
}
