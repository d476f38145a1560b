package tasks

// DELETE succeeds for a client that is not associated any more, and takes all
// of its clients or none; so a second run removes what is left. Each piece is
// settled as it goes, and what is settled is left out.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"orgops/apiclient"
)

// MaxClients is the most clients that one DELETE names (specification 4.2),
// and the most rows of a batch.
const MaxClients = 100

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

// remove is the handler. limit is the number of clients per request that the
// tenant is known to take: lowered where only smaller requests succeed.
type remove struct {
	cfg   Config
	limit *atomic.Int64
}

func newRemove(cfg Config) *remove {
	limit := new(atomic.Int64)
	limit.Store(int64(min(cfg.MaxClientsPerRequest, MaxClients)))
	return &remove{cfg: cfg, limit: limit}
}

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
	for len(left) > 0 {
		n := min(len(left), int(h.limit.Load()))
		if _, err := r.take(ctx, left[:n]); err != nil {
			return Result{}, err
		}
		left = left[n:]
	}
	return Result{Outcome: Done, Detail: r.summary()}, nil
}

func (r *removal) summary() string {
	if r.refused == 0 {
		return ""
	}
	return fmt.Sprintf("%d removed, %d refused", r.removed, r.refused)
}

// take removes a piece, halving it down to the clients at fault where the
// API refuses the body. Its error ends the execution: what is settled stays
// so. ok says that the whole piece was removed.
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
	first, err := r.take(ctx, piece[:half])
	if err != nil {
		return false, err
	}
	second, err := r.take(ctx, piece[half:])
	if err != nil {
		return false, err
	}
	if first && second {
		r.lower(int64(len(piece) - half))
	}
	return false, nil
}

// lower lowers the limit in use: a piece failed, and both its halves did not.
func (r *removal) lower(to int64) {
	for now := r.limit.Load(); to < now; now = r.limit.Load() {
		if r.limit.CompareAndSwap(now, to) {
			r.cfg.Logger.Warn("fewer clients per request from now on", "tenant", r.cfg.Tenant, "clients_per_request", to)
			return
		}
	}
}

// mayGoOn says whether one more request fits into this execution.
func (r *removal) mayGoOn(ctx context.Context) error {
	if stopping(r.cfg.Stopping) {
		return ErrStopping
	}
	deadline, bounded := ctx.Deadline()
	if r.requests >= mostRequests || (bounded && time.Until(deadline) < enoughTime) {
		return later("the batch is being taken apart; the rest goes on", time.Second)
	}
	return nil
}

func (r *removal) settle(ctx context.Context, clients []string, outcome Outcome, detail string) error {
	var items []int64
	for _, c := range clients {
		items = append(items, r.rows[c]...)
	}
	slices.Sort(items)
	return r.cfg.Ledger.Settle(ctx, r.job.Run, TypeRemove, items, string(outcome), detail)
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
		return refused("organization %s is not there any more (or its id is wrong): %s", r.org, answer.Message)
	}
	return err
}
