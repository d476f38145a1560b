package handlers

// DELETE succeeds for a client that is not associated any more, and removes all of its
// clients or none (specification 4.2), so a second execution removes the clients that
// are left. Rows that were removed or refused end before the next request, and are not
// repeated with the others. There is no intent: a row whose answer was lost while its
// run was cancelled settles as cancelled, although its client may have been removed.

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Remove is the kind of rows that remove a client's association with an organization.
const Remove ledger.Kind = tasks.TypeRemove

// Clients is the part of the API's client that removals need.
type Clients interface {
	RemoveOrganizationClients(ctx context.Context, organization string, clients []string) error
}

// ClientLimit stores for the whole fleet how many clients the tenant was found to accept
// in one request. It forgets that after a while, so that the setting is tried again.
type ClientLimit interface {
	// InUse returns how many clients a request may name, at most the setting.
	InUse(ctx context.Context, setting int) (int, error)
	// Lower lowers that number, and reports whether it was higher before.
	Lower(ctx context.Context, setting, to int) (lowered bool, err error)
}

// RemoveConfig configures the handler of [Remove].
type RemoveConfig struct {
	API func(apiclient.Binding) Clients
	// MaxClientsPerRequest is the tenant's setting, which Limit lowers; 0:
	// [schema.MaxClientsPerRequest].
	MaxClientsPerRequest int
	Limit                ClientLimit
	// Observe is called with the limit before each request. nil: not called.
	Observe func(clients int)
	Logger  *slog.Logger // nil: none
}

const (
	// maxRequests bounds an execution: a batch of 100 with a handful of bad clients
	// needs fewer.
	maxRequests = 64
	// enoughTime must be left for another request: its permit and its timeout.
	enoughTime = time.Minute
	// documentedLimit is the number of clients of a request in the service's newest
	// public description, where the specification has 100.
	documentedLimit = 10
	// mostAlone is how many clients in a row may be refused alone before none is sent with
	// others: the tenant then seems to refuse all, and splitting a batch would take two
	// requests for each client. One that is wrong is mostly the only one of its batch.
	mostAlone = 2
)

// NewRemove returns the handler of [Remove].
func NewRemove(cfg RemoveConfig) engine.Handler {
	cfg.MaxClientsPerRequest = cmp.Or(cfg.MaxClientsPerRequest, schema.MaxClientsPerRequest)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &remove{cfg: cfg}
}

type remove struct {
	cfg RemoveConfig
	// alone counts the last clients, of all rows that this worker executes, that were refused
	// in requests of their own, with no removal in between.
	alone atomic.Int32
}

// Execute implements [engine.Handler].
func (h *remove) Execute(ctx context.Context, x *engine.Execution) (engine.Answers, error) {
	answers, err := h.ExecuteAll(ctx, []*engine.Execution{x})
	return answers[0], err
}

// ExecuteAll removes the clients of one organization. The dispatcher decides which rows share a
// task: those of two organizations are refused, and nothing is removed.
func (h *remove) ExecuteAll(ctx context.Context, all []*engine.Execution) ([]engine.Answers, error) {
	r := &removal{remove: h, all: all, answers: make([]engine.Answers, len(all))}

	// The rows that can be read.
	for i, x := range all {
		r.answers[i] = engine.Answers{}
		for _, row := range x.Rows {
			content, err := decode[tasks.RemoveRow](row)
			if err != nil {
				r.answers[i][row.Number] = engine.Fail(err)
				continue
			}
			r.rows = append(r.rows, removalRow{content, i, row.Number})
		}
	}
	if len(r.rows) == 0 {
		return r.answers, nil
	}

	// Their organization.
	r.organization = r.rows[0].OrganizationID
	isOther := func(row removalRow) bool { return row.OrganizationID != r.organization }
	if slices.ContainsFunc(r.rows, isOther) {
		return r.answers, engine.Refuse("rows of two organizations were released together, and nothing was removed: " +
			"this is a fault of orgops; submit the row again")
	}

	// The requests. An error is the end of all rows that have no answer by then.
	r.api = h.cfg.API(apiclient.Binding{Before: r.allowed, Changed: r.audit})
	_, err := r.removeAll(ctx, r.open())
	if errors.Is(err, errSplit) {
		later := engine.Later("the batch is being split; the rest continues", time.Second)
		r.answer(later, func(removalRow) bool { return true })
		return r.answers, nil
	}
	return r.answers, err
}

// removal is the execution of one task.
type removal struct {
	*remove

	all          []*engine.Execution
	api          Clients          // is bound to all of them
	answers      []engine.Answers // of each execution
	rows         []removalRow
	organization string // of all rows
	requests     int
	removing     []string // the clients of the request in progress
}

// removalRow is a row of one of the executions.
type removalRow struct {
	tasks.RemoveRow

	execution int
	number    ledger.Row
}

// audit logs a removal, once for each execution with its rows and their clients.
func (r *removal) audit(ctx context.Context, c apiclient.Change) {
	for i, x := range r.all {
		var rows []ledger.Row
		var clients []string
		for _, row := range r.rows {
			if row.execution == i && slices.Contains(r.removing, row.ClientID) {
				rows = append(rows, row.number)
				clients = append(clients, row.ClientID)
			}
		}
		if len(rows) > 0 {
			x.Audit(ctx, c, rows, "clients", clients)
		}
	}
}

// isOpen reports whether a row has no answer.
func (r *removal) isOpen(row removalRow) bool {
	_, answered := r.answers[row.execution][row.number]
	return !answered
}

// answer answers the open ones among the rows for which isOf is true.
func (r *removal) answer(a *engine.Consequence, isOf func(removalRow) bool) {
	for _, row := range r.rows {
		if isOf(row) && r.isOpen(row) {
			r.answers[row.execution][row.number] = a
		}
	}
}

// open returns the clients of which a row has no answer, each once.
func (r *removal) open() (clients []string) {
	for _, row := range r.rows {
		if r.isOpen(row) && !slices.Contains(clients, row.ClientID) {
			clients = append(clients, row.ClientID)
		}
	}
	return clients
}

// removeAll removes clients in pieces of the present limit, which other executions may
// lower meanwhile. all reports whether no client was refused.
func (r *removal) removeAll(ctx context.Context, clients []string) (all bool, err error) {
	all = true
	for len(clients) > 0 {
		limit, err := r.cfg.Limit.InUse(ctx, r.cfg.MaxClientsPerRequest)
		if err != nil {
			return false, err
		}
		if r.cfg.Observe != nil {
			r.cfg.Observe(limit)
		}
		if r.alone.Load() >= mostAlone {
			limit = 1
		}
		n := min(len(clients), max(limit, 1))
		removed, err := r.removePiece(ctx, clients[:n])
		if err != nil {
			return false, err
		}
		all = all && removed
		clients = clients[n:]
	}
	return all, nil
}

// removePiece removes clients by one request. If the API refuses its body it removes
// each half, down to the clients at fault.
func (r *removal) removePiece(ctx context.Context, clients []string) (all bool, err error) {
	open := r.open()
	piece := slices.DeleteFunc(slices.Clone(clients), func(client string) bool { return !slices.Contains(open, client) })
	if len(piece) == 0 {
		return false, nil
	}
	// The first request is always made; another one only if there is time for it.
	deadline, bounded := ctx.Deadline()
	if r.requests >= maxRequests || (r.requests > 0 && bounded && time.Until(deadline) < enoughTime) {
		return false, errSplit
	}
	r.requests++
	for i, x := range r.all {
		x.End(ctx, r.answers[i]) // of rows that have an answer
	}
	isOf := func(row removalRow) bool { return slices.Contains(piece, row.ClientID) }
	r.removing = piece
	err = r.api.RemoveOrganizationClients(ctx, r.organization, piece)
	switch {
	case err == nil:
		r.alone.Store(0)
		r.answer(engine.Settle(ledger.Result{}), isOf)
		return true, nil
	case errors.Is(err, errFewer):
		_, err = r.removePiece(ctx, piece)
		return false, err
	case !maySplit(err):
		if answer, ok := errors.AsType[*apiclient.Error](err); ok && isNotFound(err) && namesOrganization(answer) {
			err = engine.Refuse("organization %s does not exist (deleted, or its id is wrong): %s", r.organization,
				answer.Message)
		}
		return false, err
	case len(piece) == 1:
		r.alone.Add(1)
		r.answer(engine.Fail(err), isOf)
		return false, nil
	}
	half := len(piece) / 2
	first, err := r.removeAll(ctx, piece[:half])
	if err != nil {
		return false, err
	}
	second, err := r.removeAll(ctx, piece[half:])
	if err != nil || !first || !second {
		return false, err
	}
	return false, r.lower(ctx, len(piece))
}

// namesOrganization reports whether a 404 says that the organization is missing: another one is
// reported in the platform's own words.
func namesOrganization(answer *apiclient.Error) bool {
	return strings.Contains(strings.ToLower(answer.Message), "organization")
}

// errSplit says that there is no time for another request of a batch that is split.
var errSplit = errors.New("the batch is being split")

// errFewer says that a request was not made since an execution has ended for rows of it.
var errFewer = errors.New("some of the rows may not be removed any more")

// allowed asks the ledger before a request whether it may be made for the rows that have no
// answer. Those of a run that was paused or cancelled get one; the others need another
// request, without them.
func (r *removal) allowed(ctx context.Context) error {
	fewer := false
	for i, x := range r.all {
		isOf := func(row removalRow) bool { return row.execution == i }
		if !slices.ContainsFunc(r.rows, func(row removalRow) bool { return isOf(row) && r.isOpen(row) }) {
			continue
		}
		err := x.Allowed(ctx)
		switch {
		case errors.Is(err, engine.ErrStopped), errors.Is(err, engine.ErrSuperseded):
			fewer = true
			r.answer(engine.Fail(err), isOf)
		case err != nil:
			return err
		}
	}
	if fewer {
		return errFewer
	}
	return nil
}

// lower lowers the limit for the fleet: a piece of that size was refused, and both its
// halves were not. Between the two sizes may be the documented limit; nothing else is
// known.
func (h *remove) lower(ctx context.Context, refused int) error {
	to := refused - refused/2
	if to < documentedLimit && documentedLimit < refused {
		to = documentedLimit
	}
	lowered, err := h.cfg.Limit.Lower(ctx, h.cfg.MaxClientsPerRequest, to)
	if lowered {
		h.cfg.Logger.WarnContext(ctx, "clients per request lowered", "clients_per_request", to, "setting",
			h.cfg.MaxClientsPerRequest)
	}
	return err
}

// maySplit reports whether the body was refused, so that a part may be accepted: one client
// is wrong, there are more than the tenant accepts at once, or a proxy bounds bodies.
func maySplit(err error) bool {
	if page, ok := errors.AsType[*apiclient.AnswerError](err); ok {
		return page.Status == http.StatusRequestEntityTooLarge
	}
	answer, ok := errors.AsType[*apiclient.Error](err)
	if !ok {
		return false
	}
	ofBody := answer.Status == http.StatusBadRequest && answer.Code != "invalid_uri"
	return answer.Status == http.StatusRequestEntityTooLarge ||
		(ofBody && apiclient.FaultOf(err) == apiclient.FaultOfRow)
}
