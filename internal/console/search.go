package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
	"orgops/tasks"
)

// mostHits is how many hits of a group are shown.
const mostHits = 10

// searchPage is the result of a search.
type searchPage struct {
	Text   string
	Runs   bool // are searched too
	Groups []hitGroup
}

// hitGroup has the first hits of a kind.
type hitGroup struct {
	Title, All string // All is the path of a list with all of them; empty: there is none
	Hits       []hit
	More       int // others
}

type hit struct{ Text, Path, About string }

func (g *hitGroup) add(h hit) {
	if len(g.Hits) < mostHits {
		g.Hits = append(g.Hits, h)
	} else {
		g.More++
	}
}

// search finds domains and runs of the tenants that the user may see: GET /search. It leads
// to the run of that id, or to the only domain of that id or name.
func (s *site) search(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	p := searchPage{Text: strings.TrimSpace(r.URL.Query().Get("q")), Runs: web.Of(ctx).User.Role != web.Support}
	p.Text = p.Text[:min(len(p.Text), longestAsked)]
	r.SetPathValue("id", p.Text)
	v := s.view(ctx)
	run, err := s.found(v, r.WithContext(ctx))
	only := runLink(run.ID, "", string(run.Tenant))
	if err != nil {
		only, err = p.find(ctx, v)
	}
	switch {
	case err != nil:
		s.fail(w, r, "", err)
	case only != "":
		http.Redirect(w, r, only, http.StatusFound)
	default:
		s.show(w, r, http.StatusOK, "search", page{Title: "Search", Data: p})
	}
}

// find fills the groups. only is the path of the only domain of that id or name.
func (p *searchPage) find(ctx context.Context, v view.View) (only string, err error) {
	if p.Text == "" {
		return "", nil
	}
	named, err := v.Find(ctx, status.DomainQuery{ID: p.Text, Name: p.Text, Most: mostCandidates})
	if err != nil {
		return "", err
	}
	var of status.Found
	if tasks.CheckOrganization(p.Text) == nil {
		if of, err = v.Find(ctx, status.DomainQuery{Organization: p.Text, Most: mostCandidates}); err != nil {
			return "", err
		}
	}
	if len(named.Domains) == 1 && !named.Prefix && len(of.Domains) == 0 {
		return domainURL(named.Domains[0].DomainName), nil
	}
	p.Groups = []hitGroup{domainHits("Domains", named), domainHits("Domains of the organization", of)}
	if p.Runs {
		err = p.findRuns(ctx, v)
	}
	p.Groups = slices.DeleteFunc(p.Groups, func(g hitGroup) bool { return len(g.Hits) == 0 })
	return "", err
}

// domainHits returns the hits of a search for domains.
func domainHits(title string, found status.Found) hitGroup {
	g := hitGroup{Title: title}
	for _, k := range found.Domains {
		about := fmt.Sprintf("tenant %s, %s, organization %s, %s", k.Tenant, k.Status, k.Organization, k.ID)
		g.add(hit{status.Shown(k.Name), domainURL(k.DomainName), printable(about)})
	}
	return g
}

// findRuns adds those of the newest runs whose ids begin with the text, have the text in their
// label, or are of the caller of that name.
func (p *searchPage) findRuns(ctx context.Context, v view.View) error {
	label := status.RunFilter{Label: p.Text}
	caller := status.RunFilter{Caller: p.Text}
	groups := []hitGroup{{Title: "Runs by id"}, {Title: "Runs by label", All: runsPath(label, "")},
		{Title: "Runs by caller", All: runsPath(caller, "")}}
	err := v.EachRun(ctx, func(r ledger.Run) {
		about := fmt.Sprintf("tenant %s, %s, %s %s %s", r.Tenant, r.Kind, status.State(r), r.Label, r.Caller)
		for i, has := range []bool{strings.HasPrefix(string(r.ID), p.Text), label.Selects(r), caller.Selects(r)} {
			if has {
				groups[i].add(hit{string(r.ID), runLink(r.ID, "", string(r.Tenant)), printable(about)})
			}
		}
	})
	p.Groups = append(p.Groups, groups...)
	return err
}
