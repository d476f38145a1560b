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
	tenants, err := v.Tenants(ctx)
	if err != nil || p.Text == "" {
		return "", err
	}
	named := make([]status.Found, len(tenants))
	of := make([]status.Found, len(tenants))
	err = v.Batch(ctx, len(tenants), func(i int, v view.View) (err error) {
		t := tenants[i].Over(v)
		named[i], err = t.Find(ctx, p.Text, mostCandidates, anyDomain)
		if err != nil || tasks.CheckOrganization(p.Text) != nil {
			return err
		}
		of[i], err = t.FindOf(ctx, p.Text, mostCandidates)
		return err
	})
	p.Groups = []hitGroup{{Title: "Domains"}, {Title: "Domains of the organization"}}
	exact := map[string]bool{}
	for i, found := range append(named, of...) {
		for _, k := range found.Domains {
			about := fmt.Sprintf("tenant %s, %s, organization %s, %s", k.Tenant, k.Status, k.Organization, k.ID)
			p.Groups[i/len(tenants)].add(hit{status.Shown(k.Name), domainURL(k.DomainName), printable(about)})
			if only = domainURL(k.DomainName); !found.Prefix {
				exact[only] = true
			}
		}
	}
	if len(exact) == 1 && len(p.Groups[0].Hits) == 1 && len(p.Groups[1].Hits) == 0 || err != nil {
		return only, err
	}
	if p.Runs {
		err = p.findRuns(ctx, v)
	}
	p.Groups = slices.DeleteFunc(p.Groups, func(g hitGroup) bool { return len(g.Hits) == 0 })
	return "", err
}

func anyDomain(status.KnownDomain) bool { return true }

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
