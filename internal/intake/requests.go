package intake

import (
	"orgops/internal/ledger"
	"orgops/tasks"
)

// requests counts the requests that rows take if none is repeated and each token is in DNS.
type requests struct {
	kind       tasks.Kind
	maxClients int // that one request names
	// changes are the executions that change something: for removals, one for each
	// [tasks.Kind].Together of an organization in a segment. all are the requests to the API.
	changes, all int64
	segment      int64          // of the row that was added last
	clients      map[string]int // of that segment, by organization
}

// newRequests counts requests of a tenant that name at most maxClients clients; 0: all that fit.
func newRequests(name string, maxClients int) *requests {
	kind, _ := tasks.KindOf(name) // a request for each row of another
	if maxClients <= 0 || maxClients > kind.Together {
		maxClients = kind.Together
	}
	return &requests{kind: kind, maxClients: maxClients, clients: map[string]int{}}
}

// add counts a row, by its number in the run. Rows are added in their order, without
// duplicates.
func (r *requests) add(item int64, row tasks.Row) {
	if r.kind.Together == 0 {
		r.changes, r.all = r.changes+1, r.all+max(r.kind.Requests, 1)
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
	if n%r.maxClients == 0 {
		r.all++
	}
}
