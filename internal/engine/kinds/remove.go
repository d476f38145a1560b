package kinds

// DELETE succeeds for a client that is not associated any more, and removes all of its
// clients or none (specification 4.2), so a second execution removes the clients that
// are left. Rows that were removed or refused end before the next request, and are not
// repeated with the others. There is no intent: a row whose answer was lost while its
// run was cancelled settles as cancelled, although its client may have been removed.

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// Remove is the kind of rows that remove a client's association with an organization.
const Remove ledger.Kind = "clients:remove"

// MaxRemovals is the largest number of rows of a task: one request removes as many.
const MaxRemovals = apiclient.MaxClientsPerRequest

// RemoveRow is the content of a row of kind [Remove].
type RemoveRow struct {
	OrganizationID string `json:"organization_id"`
	ClientID       string `json:"client_id"`
}

// Validate checks what does not need the tenant.
func (r RemoveRow) Validate() error {
	return errors.Join(apiclient.CheckID("organization_id", r.OrganizationID), apiclient.CheckID("client_id", r.ClientID))
}

// RemoveGroup returns the organization of a row's content, "" if it has none. Rows of
// one organization share a request if they share a task.
func RemoveGroup(content []byte) string {
	var r RemoveRow
	if json.Unmarshal(content, &r) != nil {
		return ""
	}
	return r.OrganizationID
}

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
	API Clients
	// MaxClients is the largest number of clients of a request, the setting of Limit; 0:
	// [MaxRemovals].
	MaxClients int
	Limit      ClientLimit
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
)

// NewRemove returns the handler of [Remove].
func NewRemove(cfg RemoveConfig) engine.Handler {
	if cfg.MaxClients == 0 {
		cfg.MaxClients = MaxRemovals
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &remove{cfg}
}

type remove struct{ cfg RemoveConfig }

// Execute implements [engine.Handler].
func (h *remove) Execute(ctx context.Context, x *engine.Execution) (engine.Answers, error) {
	answers, err := h.ExecuteAll(ctx, []*engine.Execution{x})
	return answers[0], err
}

// ExecuteAll removes the clients of one organization after the other; usually there is one.
func (h *remove) ExecuteAll(ctx context.Context, all []*engine.Execution) ([]engine.Answers, error) {
	r := &removal{remove: h, all: all, answers: make([]engine.Answers, len(all))}
	for i := range all {
		r.answers[i] = engine.Answers{}
	}
	ctx = apiclient.BeforeSending(ctx, r.allowed)
	for _, o := range r.organizations() {
		_, err := r.removeAll(ctx, o, o.clients)
		if err == nil {
			continue
		}
		if engine.Judge(err).Outcome != engine.Refused {
			return r.answers, err
		}
		r.refuse(o, err) // it applies to this organization alone
	}
	return r.answers, nil
}

// removal is the execution of one task.
type removal struct {
	*remove

	all      []*engine.Execution
	answers  []engine.Answers // of each execution
	requests int
}

// organization is an organization of the rows.
type organization struct {
	id      string
	clients []string           // each once
	rows    map[string][]place // by client
}

// place is a row of one of the executions.
type place struct {
	execution int
	row       ledger.Row
}

// organizations returns the organizations of the rows, and answers rows that are
// malformed.
func (r *removal) organizations() []*organization {
	var all []*organization
	index := map[string]*organization{}
	for i, x := range r.all {
		for _, row := range x.Rows {
			content, err := removeRow(row.Content)
			if err != nil {
				r.answers[i][row.Number] = engine.Answer{Err: err}
				continue
			}
			o := index[content.OrganizationID]
			if o == nil {
				o = &organization{id: content.OrganizationID, rows: map[string][]place{}}
				index[o.id] = o
				all = append(all, o)
			}
			o.add(content.ClientID, place{i, row.Number})
		}
	}
	return all
}

func (o *organization) add(client string, p place) {
	if o.rows[client] == nil {
		o.clients = append(o.clients, client)
	}
	o.rows[client] = append(o.rows[client], p)
}

func removeRow(content []byte) (r RemoveRow, err error) {
	if err := engine.Decode(content, &r); err != nil {
		return r, err
	}
	if err := r.Validate(); err != nil {
		return r, engine.Invalid(err)
	}
	return r, nil
}

// removeAll removes clients in pieces of the present limit, which other executions may
// lower meanwhile. all reports whether no client was refused.
func (r *removal) removeAll(ctx context.Context, o *organization, clients []string) (all bool, err error) {
	all = true
	for len(clients) > 0 {
		limit, err := r.limit(ctx)
		if err != nil {
			return false, err
		}
		n := min(len(clients), limit)
		removed, err := r.removePiece(ctx, o, clients[:n])
		if err != nil {
			return false, err
		}
		all, clients = all && removed, clients[n:]
	}
	return all, nil
}

// removePiece removes clients by one request. If the API refuses its body it removes
// each half, down to the clients at fault.
func (r *removal) removePiece(ctx context.Context, o *organization, piece []string) (all bool, err error) {
	if piece = r.open(o, piece); len(piece) == 0 {
		return false, nil
	}
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	err = r.cfg.API.RemoveOrganizationClients(ctx, o.id, piece)
	switch {
	case err == nil:
		r.answer(o, piece, engine.Answer{})
		return true, nil
	case errors.Is(err, errFewer):
		_, err = r.removePiece(ctx, o, piece)
		return false, err
	case !maySplit(err):
		return false, explain(o, err)
	case len(piece) == 1:
		r.answer(o, piece, engine.Answer{Err: err})
		return false, nil
	}
	half := len(piece) / 2
	first, err := r.removeAll(ctx, o, piece[:half])
	if err != nil {
		return false, err
	}
	second, err := r.removeAll(ctx, o, piece[half:])
	if err != nil || !first || !second {
		return false, err
	}
	return false, r.lower(ctx, len(piece))
}

// errFewer says that a request was not made since an execution has ended for rows of it.
var errFewer = errors.New("some of the rows may not be removed any more")

// allowed asks the ledger before a request whether it may be made for the rows that have no
// answer. Those of a run that was paused or cancelled get one; the others need another
// request, without them.
func (r *removal) allowed(ctx context.Context) error {
	fewer := false
	for i, x := range r.all {
		if !slices.ContainsFunc(x.Rows, func(row *engine.Row) bool { return r.isOpen(place{i, row.Number}) }) {
			continue
		}
		err := x.Allowed(ctx)
		switch {
		case errors.Is(err, engine.ErrStopped), errors.Is(err, engine.ErrSuperseded):
			fewer = true
			r.drop(i, err)
		case err != nil:
			return err
		}
	}
	if fewer {
		return errFewer
	}
	return nil
}

// drop answers the rows of an execution that have no answer.
func (r *removal) drop(execution int, err error) {
	for _, row := range r.all[execution].Rows {
		if p := (place{execution, row.Number}); r.isOpen(p) {
			r.answers[execution][p.row] = engine.Answer{Err: err}
		}
	}
}

// isOpen reports whether a row has no answer.
func (r *removal) isOpen(p place) bool {
	_, answered := r.answers[p.execution][p.row]
	return !answered
}

// open returns the clients of which a row has no answer.
func (r *removal) open(o *organization, clients []string) (open []string) {
	for _, client := range clients {
		if slices.ContainsFunc(o.rows[client], r.isOpen) {
			open = append(open, client)
		}
	}
	return open
}

// prepare ends the rows that have an answer, and returns an error if there is no time
// for another request. The first one is always made.
func (r *removal) prepare(ctx context.Context) error {
	deadline, bounded := ctx.Deadline()
	if r.requests >= maxRequests || r.requests > 0 && bounded && time.Until(deadline) < enoughTime {
		return engine.Later("the batch is being split; the rest continues", time.Second)
	}
	r.requests++
	for i, x := range r.all {
		x.End(ctx, r.answers[i])
	}
	return nil
}

func (r *removal) answer(o *organization, clients []string, a engine.Answer) {
	for _, client := range clients {
		for _, p := range o.rows[client] {
			if r.isOpen(p) { // else it was dropped, and another row names the client
				r.answers[p.execution][p.row] = a
			}
		}
	}
}

// refuse answers the rows of the organization that have no answer.
func (r *removal) refuse(o *organization, err error) {
	for _, rows := range o.rows {
		for _, p := range rows {
			if r.isOpen(p) {
				r.answers[p.execution][p.row] = engine.Answer{Err: err}
			}
		}
	}
}

// limit returns how many clients a request may name at present.
func (h *remove) limit(ctx context.Context) (int, error) {
	limit, err := h.cfg.Limit.InUse(ctx, h.cfg.MaxClients)
	if err != nil {
		return 0, err
	}
	if h.cfg.Observe != nil {
		h.cfg.Observe(limit)
	}
	return max(limit, 1), nil
}

// lower lowers the limit for the fleet: a piece of that size was refused, and both its
// halves were not. Between the two sizes may be the documented limit; nothing else is
// known.
func (h *remove) lower(ctx context.Context, refused int) error {
	to := refused - refused/2
	if to < documentedLimit && documentedLimit < refused {
		to = documentedLimit
	}
	lowered, err := h.cfg.Limit.Lower(ctx, h.cfg.MaxClients, to)
	if lowered {
		h.cfg.Logger.WarnContext(ctx, "clients per request lowered", "clients_per_request", to, "setting", h.cfg.MaxClients)
	}
	return err
}

// maySplit reports whether the API refused the body, so that it may accept a part: one
// client is wrong, or there are more than the tenant accepts at once.
func maySplit(err error) bool {
	answer, ok := errors.AsType[*apiclient.Error](err)
	return ok && (answer.Status == http.StatusRequestEntityTooLarge ||
		answer.Status == http.StatusBadRequest && answer.Code != "invalid_uri")
}

// explain names the organization if the API does not know it.
func explain(o *organization, err error) error {
	if answer, ok := errors.AsType[*apiclient.Error](err); ok && answer.Status == http.StatusNotFound {
		return engine.Refuse("organization %s does not exist (deleted, or its id is wrong): %s", o.id, answer.Message)
	}
	return err
}
