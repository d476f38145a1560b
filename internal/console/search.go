package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/web"
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
	run, err := s.found(ctx, r)
	only := runLink(run.ID, "", string(run.Tenant))
	if err != nil || !p.Runs {
		only, err = p.find(ctx, s)
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
func (p *searchPage) find(ctx context.Context, s *site) (only string, err error) {
	user := web.Of(ctx).User
	tenants, err := s.Ledger.Tenants(ctx)
	if err != nil || p.Text == "" {
		return "", err
	}
	tenants = slices.DeleteFunc(tenants, func(t ledger.Tenant) bool { return !user.MayTenant(string(t)) })
	named, of := make([]status.Found, len(tenants)), make([]status.Found, len(tenants))
	mine := func(k status.KnownDomain) bool { return user.MayOrganization(k.Organization) }
	err = redisconn.Batch(ctx, s.Redis, len(tenants), func(i int, rdb redis.UniversalClient) (err error) {
		l, t := ledger.New(rdb), string(tenants[i])
		if named[i], err = status.Find(ctx, l, t, p.Text, mostCandidates, mine); err == nil {
			of[i], err = status.FindOf(ctx, l, t, p.Text, mostCandidates, mine)
		}
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
		err = p.findRuns(ctx, s)
	}
	p.Groups = slices.DeleteFunc(p.Groups, func(g hitGroup) bool { return len(g.Hits) == 0 })
	return "", err
}

// findRuns adds those of the newest runs whose ids begin with the text, have the text in their
// label, or are of the caller of that name.
func (p *searchPage) findRuns(ctx context.Context, s *site) error {
	f := status.RunFilter{May: web.Of(ctx).User.MayTenant}
	label, caller := status.RunFilter{Label: p.Text}, status.RunFilter{Caller: p.Text}
	groups := []hitGroup{{Title: "Runs by id"}, {Title: "Runs by label", All: runsPath(label, "")},
		{Title: "Runs by caller", All: runsPath(caller, "")}}
	q := f.Query(ledger.Place{}, 0)
	q.Match = func(r ledger.Run) bool {
		about := fmt.Sprintf("tenant %s, %s, %s %s %s", r.Tenant, r.Kind, status.State(r), r.Label, r.Caller)
		for i, has := range []bool{strings.HasPrefix(string(r.ID), p.Text), label.Selects(r), caller.Selects(r)} {
			if has {
				groups[i].add(hit{string(r.ID), runLink(r.ID, "", string(r.Tenant)), printable(about)})
			}
		}
		return false // all are read
	}
	_, _, err := s.Ledger.Page(ctx, q)
	p.Groups = append(p.Groups, groups...)
	return err
}
