package intake

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orgops/tasks"
)

// Plan is what handing an input in would come to.
type Plan struct {
	Rows       int64 // all of the input
	Invalid    int64 // of these, those that are bad and left out
	Duplicates int64 // and those that ask for the same as one before them
	Tasks      int64
	// Calls is how many requests to the API there would be where nothing has to
	// be tried again, and where every token that is looked for is there.
	Calls int64
	// Organizations are those with the most rows, and More is how many others
	// there are. Rows of organizations past the first 100,000 are counted in
	// Further alone. Rows that would become no work are in none of the three.
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
	// toldOrganizations is how many are told one by one.
	toldOrganizations = 20
)

// Plan reads the checked input once more and counts what it would come to, for
// a tenant whose requests name at most maxClients clients (0: all that fit).
func (in Input) Plan(c Checked, maxClients int) (Plan, error) {
	plan := Plan{Rows: c.Rows, Invalid: c.Invalid.Total, Duplicates: c.Duplicates.Total}
	work := tasks.NewPlan(in.Kind.Name, maxClients)
	count := map[string]int64{}
	err := in.again(c, func(item int64, _ []byte, row tasks.Row) error {
		work.Add(item, row)
		plan.count(count, row.Organization())
		return nil
	}, func(int64, []byte, tasks.Row, fate) error { return nil })
	if err != nil {
		return Plan{}, err
	}
	work.Close()
	plan.Tasks, plan.Calls = work.Tasks, work.Calls
	plan.rank(count)
	return plan, nil
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
	for _, id := range ids[:min(len(ids), toldOrganizations)] {
		p.Organizations = append(p.Organizations, OrganizationRows{ID: id, Rows: count[id]})
	}
	p.More = int64(len(ids) - len(p.Organizations))
}
