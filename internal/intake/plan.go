package intake

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/tasks"
)

// Estimate is the plan of a submission that is not made, as commands print it and the HTTP API
// sends it.
type Estimate struct {
	DryRun bool   `json:"dry_run"`
	Kind   string `json:"kind"`
	Tenant string `json:"tenant"`
	Plan
}

// Plan is what a submission would take.
type Plan struct {
	Found
	// Tasks is how many requests that change something the rows take, apart from retries.
	Tasks int64 `json:"tasks"`
	// Calls is how many requests to the API there would be if none had to be
	// repeated, and if every token were published.
	Calls int64 `json:"api_calls"`
	// Organizations are those with the most rows that become work, and More is the number of
	// the others.
	Organizations []OrganizationRows `json:"organizations,omitempty"`
	More          int64              `json:"more_organizations,omitempty"`
}

// OrganizationRows is how many rows are about an organization.
type OrganizationRows struct {
	ID   string `json:"organization_id"`
	Rows int64  `json:"rows"`
}

// listedOrganizations is how many organizations are listed one by one.
const listedOrganizations = 20

// Plan reads the input and returns the estimate of its submission, for a tenant whose requests
// name at most maxClientsPerRequest clients (0: all that fit). It submits nothing. The error is one
// of an input; the plan then has only its Found.
func (in Input) Plan(maxClientsPerRequest int) (p Plan, err error) {
	rows, err := in.open()
	if err != nil {
		return p, err
	}
	requests := newRequests(in.Kind, maxClientsPerRequest)
	byOrganization := map[string]int64{}
	item := int64(0)
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
		p.Tasks = requests.changes
		p.Calls = requests.all
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
