package intake

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks"
)

// Plan is the estimate of a submission.
type Plan struct {
	Found
	// Tasks is how many requests that change something the rows take, apart from retries.
	Tasks int64
	// Calls is how many requests to the API there would be if none had to be
	// repeated, and if every token were published.
	Calls int64
	// Organizations are those with the most rows that become work, and More is the number of
	// the others.
	Organizations []OrganizationRows
	More          int64
}

// OrganizationRows is how many rows are about an organization.
type OrganizationRows struct {
	ID   string `json:"organization_id"`
	Rows int64  `json:"rows"`
}

// listedOrganizations is how many organizations are listed one by one.
const listedOrganizations = 20

// Plan reads the input and returns the estimate of its submission, for a tenant whose requests
// name at most maxClients clients (0: all that fit). It submits nothing. The error is one of an
// input; the plan then has only its Found.
func (in Input) Plan(maxClients int) (p Plan, err error) {
	rows, err := in.open()
	if err != nil {
		return p, err
	}
	requests, byOrganization, item := newRequests(in.Kind, maxClients), map[string]int64{}, int64(0)
	rows.work = func(row tasks.Row) error {
		requests.add(item, row)
		item++
		if organization := row.Organization(); organization != "" {
			byOrganization[organization]++
		}
		return nil
	}
	rows.settled = func([]byte, ledger.Result) error {
		item++
		return nil
	}
	err = rows.check()
	p.Found = rows.found
	if err == nil {
		p.Tasks, p.Calls = requests.changes, requests.all
		p.rank(byOrganization)
	}
	return p, err
}

// rank keeps the organizations with the most rows.
func (p *Plan) rank(count map[string]int64) {
	ids := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b))
	})
	for _, id := range ids[:min(len(ids), listedOrganizations)] {
		p.Organizations = append(p.Organizations, OrganizationRows{ID: id, Rows: count[id]})
	}
	p.More = int64(len(ids) - len(p.Organizations))
}

// sampleRows is the number of rows from which the others of their run are estimated: a chunk,
// which is read whole anyway, or the window within which clients are grouped.
func sampleRows(kind string) int {
	if kind == tasks.TypeRemove {
		return 10 * chunkRows
	}
	return chunkRows
}

// CallsPerRow returns how many requests to the API a row of the run takes if none has to be
// repeated, as [Input.Plan] counts them: the average of its first rows, 0 while none is stored.
// maxClients is the tenant's.
func CallsPerRow(ctx context.Context, l *runs.Ledger, r ledger.Run, maxClients int) (float64, error) {
	stored, err := newStoredRows(l, r)
	if err != nil {
		return 0, err
	}
	sources, err := l.Rows(ctx, r.ID, 0, sampleRows(string(r.Kind)))
	if err != nil {
		return 0, err
	}
	requests, rows := newRequests(string(r.Kind), maxClients), int64(0)
	for item, source := range sources {
		if row, bad := stored.row(source); bad == nil {
			requests.add(int64(item), row)
			rows++
		}
	}
	if r.Scan != nil && r.Kind == tasks.TypeVerify {
		requests.all -= rows // the scan has read the record
	}
	if rows == 0 {
		return 0, nil
	}
	return float64(requests.all) / float64(rows), nil
}
