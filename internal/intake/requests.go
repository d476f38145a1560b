package intake

import (
	"orgops/internal/ledger"
	"orgops/tasks"
)

// requests counts the requests that rows take if none is repeated and each token is in DNS.
type requests struct {
	kind                 tasks.Kind
	maxClientsPerRequest int // at least 1, if rows of the kind share requests
	// changes are the requests that change something if each names as many rows as any may
	// ([tasks.Kind].Together), and all the requests to the API. Removals of one organization share
	// them within a segment, as the dispatcher releases rows.
	changes, all int64
	segment      int64          // of the row that was added last
	clients      map[string]int // of that segment, by organization
}

// newRequests counts requests of a tenant with that setting; 0: it is not known.
func newRequests(name string, maxClientsPerRequest int) *requests {
	kind, _ := tasks.KindOf(name) // a request for each row of another
	if maxClientsPerRequest <= 0 || maxClientsPerRequest > kind.Together {
		maxClientsPerRequest = kind.Together
	}
	return &requests{kind: kind, maxClientsPerRequest: maxClientsPerRequest, clients: map[string]int{}}
}

// add counts a row, by its number in the run. Rows are added in their order, without
// duplicates.
func (r *requests) add(item int64, row tasks.Row) {
	if r.kind.Together == 0 {
		r.changes++
		r.all += max(r.kind.Requests, 1)
		return
	}
	organization := row.Organization()
	if segment := item / ledger.SegmentRows; segment != r.segment {
		r.segment = segment
		clear(r.clients)
	}
	n := r.clients[organization] % r.kind.Together
	r.clients[organization]++
	if n == 0 {
		r.changes++
	}
	if n%r.maxClientsPerRequest == 0 {
		r.all++
	}
}
