package intake

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/tasks"
)

// Plan is the estimate of a submission.
type Plan struct {
	Found
	// Tasks is how many requests that change something the rows take, apart from retries.
	// Removals of a client that is named again beyond 8,192 rows are counted twice.
	Tasks int64
	// Calls is how many requests to the API there would be if none had to be
	// repeated, and if every token were there.
	Calls int64
	// Organizations are those with the most good rows, duplicates among them, and More is how
	// many others there are. Rows of organizations past the first 100,000 are counted in
	// Further alone.
	Organizations []OrganizationRows
	More          int64
	Further       int64
}

// OrganizationRows is how many rows are about an organization.
type OrganizationRows struct {
	ID   string
	Rows int64
}

const (
	// mostOrganizations bounds the memory of the count: some 20 MB with the
	// longest ids.
	mostOrganizations = 100_000
	// listedOrganizations is how many are listed one by one.
	listedOrganizations = 20
)

// Plan reads the input and returns the estimate of its submission, for a tenant whose requests
// name at most maxClients clients (0: all that fit). It submits nothing. The error is one of an
// input; the plan then has its Found alone.
func (in Input) Plan(maxClients int) (Plan, error) {
	p := planner{count: tasks.NewPlan(in.Kind.Name, maxClients), rows: map[string]int64{}}
	var err error
	if p.plan.Found, err = in.read(&p); err != nil {
		return p.plan, err
	}
	p.count.Close()
	p.plan.Tasks, p.plan.Calls = p.count.Tasks, p.count.Calls
	p.plan.rank(p.rows)
	return p.plan, nil
}

// planner counts rows.
type planner struct {
	plan  Plan
	count *tasks.Plan
	rows  map[string]int64 // by organization
	taken int64
}

func (*planner) opened(string, []string) {}

func (p *planner) work(row tasks.Row) error {
	p.count.Add(p.taken, row)
	p.taken++
	p.plan.count(p.rows, row.Organization())
	return nil
}

func (p *planner) settled([]byte, ledger.Result) error {
	p.taken++
	return nil
}

func (p *Plan) count(count map[string]int64, organization string) {
	_, known := count[organization]
	switch {
	case organization == "":
	case known:
		count[organization]++
	case len(count) < mostOrganizations:
		count[strings.Clone(organization)] = 1
	default:
		p.Further++
	}
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
