package intake

import (
	"orgops/internal/ledger"
	"orgops/tasks"
)

// requests counts the requests that rows take if none is repeated and each token is in DNS.
type requests struct {
	kind       string
	maxClients int // that one request names
	// changes are the executions that change something: for removals, one for each
	// [tasks.MaxClients] of an organization in a segment. all are the requests to the API.
	changes, all int64
	segment      int64          // of the row that was added last
	clients      map[string]int // of that segment, by organization
}

// newRequests counts requests of a tenant that name at most maxClients clients; 0: all that fit.
func newRequests(kind string, maxClients int) *requests {
	if maxClients <= 0 || maxClients > tasks.MaxClients {
		maxClients = tasks.MaxClients
	}
	return &requests{kind: kind, maxClients: maxClients, clients: map[string]int{}}
}

// add counts a row, by its number in the run. Rows are added in their order, without
// duplicates.
func (r *requests) add(item int64, row tasks.Row) {
	switch r.kind {
	case tasks.TypeVerify:
		r.changes, r.all = r.changes+1, r.all+2 // a GET, to prove it, and the PATCH
	case tasks.TypeRemove:
		r.addClient(item/ledger.SegmentRows, row.Organization())
	default:
		r.changes, r.all = r.changes+1, r.all+1
	}
}

func (r *requests) addClient(segment int64, organization string) {
	if segment != r.segment {
		r.segment = segment
		clear(r.clients)
	}
	n := r.clients[organization] % tasks.MaxClients
	r.clients[organization]++
	if n == 0 {
		r.changes++
	}
	if n%r.maxClients == 0 {
		r.all++
	}
}
