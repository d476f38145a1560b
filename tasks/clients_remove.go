package tasks

// DELETE succeeds for a client that is not associated any more, and takes all
// of its clients or none; so a second run removes what is left. Each piece is
// settled as it goes, and what is settled is left out.
//
// How many clients the tenant takes at once is found out where it is fewer than
// the setting says, and remembered for all workers.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"orgops/apiclient"
)

// RemovePayload removes clients from one organization; Items[i] is the row
// of Clients[i].
type RemovePayload struct {
	Envelope

	OrganizationID string   `json:"organization_id"`
	Clients        []string `json:"clients"`
}

// Validate checks what does not need the tenant.
func (p RemovePayload) Validate() error {
	if len(p.Items) != len(p.Clients) {
		return fmt.Errorf("want one of items for each of clients, got %d for %d", len(p.Items), len(p.Clients))
	}
	return errors.Join(apiclient.CheckID("organization_id", p.OrganizationID), apiclient.CheckClients(p.Clients, MaxClients))
}

// Bounds of one execution; what is left after them goes on in the next.
const (
	// mostRequests is what taking apart a batch of 100 with a handful of bad
	// clients needs.
	mostRequests = 64
	// enoughTime has to be left for one more request: its permit and its
	// timeout.
	enoughTime = time.Minute
)

// documentedMost is the most clients that the service's newest public
// description lets one request name, where the specification says 100.
const documentedMost = 10

// remove is the handler.
type remove struct{ cfg Config }

// removal is one execution: the clients that are left with their rows.
type removal struct {
	*remove
	job      Job
	org      string
	rows     map[string][]int64 // a client named twice is one piece of work
	requests int
	removed  int
	refused  int
}

func (h *remove) process(ctx context.Context, job Job, p RemovePayload) (Result, error) {
	r := &removal{remove: h, job: job, org: p.OrganizationID, rows: map[string][]int64{}}
	var left []string
	for i, client := range p.Clients {
		if !slices.Contains(job.Items, p.Items[i]) {
			continue // settled
		}
		if _, there := r.rows[client]; !there {
			left = append(left, client)
		}
		r.rows[client] = append(r.rows[client], p.Items[i])
	}
	if _, err := r.takeAll(ctx, left); err != nil {
		return Result{}, err
	}
	return Result{Outcome: Done, Detail: r.summary()}, nil
}

func (r *removal) summary() string {
	if r.refused == 0 {
		return ""
	}
	return fmt.Sprintf("%d removed, %d refused", r.removed, r.refused)
}

// takeAll removes clients in pieces of as many as the tenant takes at once, as
// far as that is known: other batches find it out at the same time. Its error
// ends the execution: what is settled stays so. ok says that all were removed.
func (r *removal) takeAll(ctx context.Context, clients []string) (ok bool, err error) {
	ok = true
	for len(clients) > 0 {
		limit, err := r.limit(ctx)
		if err != nil {
			return false, err
		}
		n := min(len(clients), limit)
		taken, err := r.take(ctx, clients[:n])
		if err != nil {
			return false, err
		}
		ok, clients = ok && taken, clients[n:]
	}
	return ok, nil
}

// take removes a piece by one request, or by halving it down to the clients at
// fault where the API refuses the body.
func (r *removal) take(ctx context.Context, piece []string) (ok bool, err error) {
	if err := r.mayGoOn(ctx); err != nil {
		return false, err
	}
	r.requests++
	err = r.cfg.API.RemoveOrganizationClients(ctx, r.org, piece)
	switch {
	case err == nil:
		r.removed += len(piece)
		return true, r.settle(ctx, piece, Done, "")
	case !smallerMayDo(err):
		return false, r.explain(err)
	case len(piece) == 1:
		r.refused++
		return false, r.settle(ctx, piece, Refused, err.Error())
	}
	half := len(piece) / 2
	first, err := r.takeAll(ctx, piece[:half])
	if err != nil {
		return false, err
	}
	second, err := r.takeAll(ctx, piece[half:])
	if err != nil || !first || !second {
		return false, err
	}
	return false, r.lower(ctx, len(piece))
}

// limit is how many clients a request names at present.
func (h *remove) limit(ctx context.Context) (int, error) {
	limit, err := h.cfg.ClientLimit.InUse(ctx, h.cfg.MaxClientsPerRequest)
	if err != nil {
		return 0, err
	}
	if h.cfg.Meter != nil {
		h.cfg.Meter.ClientsPerRequest(h.cfg.Tenant, limit)
	}
	return max(limit, 1), nil
}

// lower lowers the limit for the fleet: a piece of that size failed, and both its
// halves did not. Between the two sizes lies what the service documents, or nothing
// that is known.
func (h *remove) lower(ctx context.Context, failed int) error {
	to := failed - failed/2
	if to < documentedMost && documentedMost < failed {
		to = documentedMost
	}
	lowered, err := h.cfg.ClientLimit.Lower(ctx, h.cfg.MaxClientsPerRequest, to)
	if err != nil {
		return err
	}
	if lowered {
		h.cfg.Logger.WarnContext(ctx, "clients per request lowered", "tenant", h.cfg.Tenant, "clients_per_request", to, "setting", h.cfg.MaxClientsPerRequest)
	}
	return nil
}

// mayGoOn says whether one more request fits into this execution.
func (r *removal) mayGoOn(ctx context.Context) error {
	if stopping(r.cfg.Stopping) {
		return ErrStopping
	}
	deadline, bounded := ctx.Deadline()
	if r.requests >= mostRequests || (bounded && time.Until(deadline) < enoughTime) {
		return later("the batch is being split; the rest continues", time.Second)
	}
	return nil
}

func (r *removal) settle(ctx context.Context, clients []string, outcome Outcome, detail string) error {
	var items []int64
	for _, c := range clients {
		items = append(items, r.rows[c]...)
	}
	slices.Sort(items)
	return r.cfg.Ledger.Settle(ctx, r.job.Run, TypeRemove, r.job.Generation, items, string(outcome), detail)
}

// smallerMayDo says whether the API refused the body, so that a part of it
// may be taken: a wrong client, or more than this tenant takes at once.
func smallerMayDo(err error) bool {
	var answer *apiclient.Error
	if !errors.As(err, &answer) {
		return false
	}
	return answer.Status == http.StatusRequestEntityTooLarge ||
		(answer.Status == http.StatusBadRequest && answer.Code != "invalid_uri")
}

// explain names the organization where the API does not know it.
func (r *removal) explain(err error) error {
	var answer *apiclient.Error
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return refused("organization %s does not exist (deleted, or its id is wrong): %s", r.org, answer.Message)
	}
	return err
}
