// Package viewtest tests all routes of a server: to a user, data of others does not exist. It is
// for servers whose handlers have a view of package view.
//
// [Routes] has requests of each route, with the names of a tenant and of its data. Users of each
// role, limited to another tenant or to another organization, send each request about data of
// others and about missing data: the answers are the same, and nothing is changed. Some of
// the users always were limited, the others were narrowed since. The wide entries that these had
// before get answers that differ, so that no request is about nothing.
package viewtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/discovery"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
	"orgops/internal/web"
)

// Route has the requests of a route.
type Route struct {
	Requests []Request
	None     string // why the route has none: nothing of it is anybody's
}

// Request is a request about something. In path and body {tenant}, {organization}, {domain},
// {name}, {run}, {open} and {endpoint} are names of it: run has ended, and open is open.
type Request struct {
	Path string
	Type string // of the body
	Body string
	// New says why missing data is accepted too, so that the answers are the same to everyone.
	New string
	// Whole says that it is about whole tenants or runs, which users with organizations do not see.
	Whole bool
}

// Routes are the requests of routes by their patterns.
type Routes map[string]Route

// Server is the server under test.
type Server struct {
	Routes []web.Route
	// Start returns the handler of a server with these users.
	Start func(*web.Access) http.Handler
	// Sign authenticates a request by a user's token, as a browser or client does.
	Sign func(r *http.Request, token string)
}

// names are those of a tenant and of its data. word is in all but perhaps that of the tenant.
type names struct{ word, tenant string }

// alba is the tenant and the organization that limited users have. Another tenant and all in it is
// borea, another organization of tenant-alba is cetus. dorado is missing.
var (
	alba          = names{"alba", "tenant-alba"}
	borea         = names{"borea", "tenant-borea"}
	cetus         = names{"cetus", "tenant-alba"}
	missing       = names{"dorado", "tenant-dorado"}
	missingInAlba = names{"dorado", "tenant-alba"}
)

func (n names) in(text string) string {
	return strings.NewReplacer("{tenant}", n.tenant, "{organization}", "org_"+n.word, "{domain}", "ord_"+n.word,
		"{name}", n.word+".example", "{run}", "run-"+n.word, "{open}", "open-"+n.word, "{endpoint}", "hook-"+n.word,
	).Replace(text)
}

// owner is the name of all users, in which all runs were submitted: it decides nothing.
const owner = "owner"

// fill stores data with the names.
func (n names) fill(t *testing.T, rdb redistest.Client) {
	t.Helper()
	l := ledger.New(rdb)
	about := ledger.Description{Caller: owner, Label: "label " + n.word, Format: "jsonl"}
	row := n.in(`{"organization_id":"{organization}","discovery_domain_id":"{domain}"}`)
	for _, id := range []string{n.in("{run}"), n.in("{open}")} {
		ledgertest.Submit(t, l, ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(n.tenant), Description: about}, row)
	}

	// The first run has ended, and the index of names has its domain.
	id := n.in("{run}")
	run := ledgertest.Find(t, l, id)
	known := index.Entry{Domain: discovery.Domain{OrganizationID: n.in("{organization}"), ID: n.in("{domain}"),
		Name: n.in("{name}"), Host: "_v." + n.in("{name}"), TXT: "token"}, At: time.Now(), Run: run.ID}
	_, err := l.End(t.Context(), ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation},
		ledger.NewNonce(), ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: known.Subject()})
	must(t, err)
	ledgertest.Settle(t, l, id, string(ledger.Expired), "no record", 0)

	_, err = tenant.Announce(t.Context(), rdb, tenant.Announced{Tenant: n.tenant, Rate: "10/s", Burst: 10,
		MaxClientsPerRequest: 100})
	must(t, err)
	activity.Author{Redis: rdb, Logger: slog.New(slog.DiscardHandler), Name: owner}.Record(t.Context(),
		activity.OfRun(n.tenant, n.in("{run}"), activity.Submitted, ""))
	must(t, rdb.HSet(t.Context(), "orgops:v3:{tenant:"+n.tenant+"}:webhooks", n.in("{endpoint}.failed"), 1).Err())
	_, err = asynq.NewClientFromRedisClient(rdb.(redis.UniversalClient)).Enqueue(asynq.NewTask("x", nil),
		asynq.Queue(queues.OfRows(n.tenant)), asynq.TaskID(n.word))
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// limit limits users.
type limit struct {
	name          string
	tenants       string
	organizations string
	roles         []web.Role // of users that may have it
	about, none   names      // data of others, and missing data
}

const anyOrganization = "org_alba, org_borea, org_cetus"

var limits = []limit{
	{"to another tenant", "tenant-alba", "", web.Roles, borea, missing},
	{"to another organization", `"*"`, "org_alba", []web.Role{web.Support, web.Submitter, web.Customer}, cetus,
		missingInAlba},
}

// user is an entry of the access file.
type user struct {
	role  web.Role
	token string
}

func userOf(role web.Role, of string) user {
	sum := sha256.Sum256([]byte(string(role) + of))
	return user{role, "orgops_" + hex.EncodeToString(sum[:])}
}

// entry returns the line of a user with these limits.
func (u user) entry(tenants, organizations string) string {
	sum := sha256.Sum256([]byte(u.token))
	more := ""
	if u.role == web.Submitter {
		more = `, kinds: ["*"]`
	}
	if u.role == web.Customer && organizations == "" {
		organizations = anyOrganization
	}
	if organizations != "" {
		more += ", organizations: [" + organizations + "]"
	}
	return fmt.Sprintf("- {name: %s, role: %s, sha256: %s, tenants: [%s]%s}\n", owner, u.role, hex.EncodeToString(sum[:]),
		tenants, more)
}

// Check checks all routes. rdb is the server's, and that of [redistest.New] of the test.
func (all Routes) Check(t *testing.T, rdb redistest.Client, s Server) {
	t.Helper()
	patterns := map[string]web.Route{}
	for _, route := range s.Routes {
		patterns[route.Pattern] = route
		if r := all[route.Pattern]; (len(r.Requests) > 0) == (r.None != "") {
			t.Errorf("%s: want requests about what is another's, or why there are none", route.Pattern)
		}
	}
	for pattern := range all {
		if _, ok := patterns[pattern]; !ok {
			t.Errorf("%s: there is no such route", pattern)
		}
	}
	for _, n := range []names{alba, borea, cetus} {
		n.fill(t, rdb)
	}
	for _, limited := range limits {
		read := func(word string) map[string]string {
			values := map[string]string{}
			for _, key := range redistest.Keys(t, "*"+word+"*") {
				values[key] = valueOf(t, rdb, key)
			}
			return values
		}
		t.Run(limited.name, func(t *testing.T) { all.checkLimit(t, s, limited, read) })
	}
}

// checkLimit checks the users of a limit. read returns the values of all keys with a word.
func (all Routes) checkLimit(t *testing.T, s Server, limited limit, read func(word string) map[string]string) {
	file := filepath.Join(t.TempDir(), "access.yaml")
	var later atomic.Int64
	write := func(narrowed bool) {
		var text strings.Builder
		for _, role := range limited.roles {
			text.WriteString(userOf(role, "always").entry(limited.tenants, limited.organizations))
			if narrowed {
				text.WriteString(userOf(role, "narrowed").entry(limited.tenants, limited.organizations))
			} else {
				text.WriteString(userOf(role, "narrowed").entry(`"*"`, ""))
			}
		}
		must(t, os.WriteFile(file, []byte(text.String()), 0o600))
		later.Add(3600)
	}
	write(false)
	access, err := web.ReadAccess(file, slog.New(slog.NewTextHandler(t.Output(), nil)),
		func() time.Time { return time.Unix(later.Load(), 0) })
	must(t, err)
	c := check{server: s, handler: s.Start(access), limit: limited}

	// The wide entry reads data of others.
	all.each(s, func(method string, route web.Route, r Request) {
		if method == http.MethodGet {
			c.differs(t, method, route, r)
		}
	})

	// Limited, nobody reads or changes it.
	write(true)
	before := read(limited.about.word)
	all.each(s, func(method string, route web.Route, r Request) {
		for _, role := range limited.roles {
			if !slices.Contains(route.Roles, role) {
				continue
			}
			for _, since := range []string{"always", "narrowed"} {
				c.same(t, method, r, userOf(role, since), since)
			}
		}
	})
	if after := read(limited.about.word); !maps.Equal(before, after) {
		t.Errorf("limited users have changed what is another's: before\n%v\nafter\n%v", before, after)
	}

	// The wide entry changes it.
	write(false)
	all.each(s, func(method string, route web.Route, r Request) {
		if method != http.MethodGet {
			c.differs(t, method, route, r)
		}
	})
}

// each calls do for each request, in the order of the routes.
func (all Routes) each(s Server, do func(method string, route web.Route, r Request)) {
	for _, route := range s.Routes {
		method, _, found := strings.Cut(route.Pattern, " ")
		if !found {
			method = http.MethodGet
		}
		for _, r := range all[route.Pattern].Requests {
			do(method, route, r)
		}
	}
}

// check checks requests.
type check struct {
	server  Server
	handler http.Handler
	limit   limit
}

// names reports whether the request names data of others, so that the answer may repeat it.
func (c check) names(r Request) bool {
	return strings.Contains(c.limit.about.in(r.Path+r.Body), c.limit.about.word)
}

// same checks that a limited user gets the same answer about data of others and missing data.
func (c check) same(t *testing.T, method string, r Request, u user, since string) {
	t.Helper()
	about := c.answer(method, r, u, c.limit.about)
	none := c.answer(method, r, u, c.limit.none)
	if diff := cmp.Diff(plain(none), plain(about)); diff != "" {
		t.Errorf("%s %s, %s, limited %s (%s): the answer about what is missing (-) and about what is another's (+)\n%s",
			method, r.Path, u.role, c.limit.name, since, diff)
	}
	if !c.names(r) && strings.Contains(about, c.limit.about.word) {
		t.Errorf("%s %s, %s, limited %s (%s): shows what is another's\n%s", method, r.Path, u.role, c.limit.name, since, about)
	}
}

// differs checks that a user without the limit gets another answer about data of others than about
// missing data.
func (c check) differs(t *testing.T, method string, route web.Route, r Request) {
	t.Helper()
	if r.New != "" || (r.Whole && c.limit.organizations != "") {
		return
	}
	may := 0
	for _, role := range c.limit.roles {
		if !slices.Contains(route.Roles, role) {
			continue
		}
		may++
		about := c.answer(method, r, userOf(role, "narrowed"), c.limit.about)
		if !c.names(r) && strings.Contains(about, c.limit.about.word) {
			return
		}
		if plain(about) != plain(c.answer(method, r, userOf(role, "narrowed"), c.limit.none)) {
			return
		}
	}
	if may > 0 {
		t.Errorf("%s %s: no user without limits gets an answer about what is another's", method, r.Path)
	}
}

// answer returns the answer to a request about data with these names. A page to which it leads is
// part of it.
func (c check) answer(method string, request Request, u user, n names) string {
	w := c.do(method, n.in(request.Path), request.Type, n.in(request.Body), u)
	text := fmt.Sprintf("%d\n%s", w.Code, w.Body)
	if to := w.Header().Get("Location"); to != "" && w.Code == http.StatusSeeOther {
		page := c.do(http.MethodGet, to, "", "", u)
		text += fmt.Sprintf("\nleads to %s: %d\n%s", to, page.Code, page.Body)
	} else if to != "" {
		text += "\nleads to " + to
	}
	return text
}

func (c check) do(method, path, mediaType, body string, u user) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", "request")
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	c.server.Sign(r, u.token)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// random are the parts of an answer that differ from request to request.
var random = regexp.MustCompile(`notice=[A-Z0-9]+|data-now="\d+"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?|\d\d:\d\d`)

// plain returns an answer without the names and random parts in it.
func plain(answer string) string {
	answer, _ = url.QueryUnescape(strings.ReplaceAll(answer, "%", "%25"))
	answer = random.ReplaceAllString(answer, "…")
	return strings.NewReplacer("borea", "…", "cetus", "…", "dorado", "…").Replace(answer)
}

// valueOf returns the value of a key as text.
func valueOf(t *testing.T, rdb redis.Cmdable, key string) string {
	t.Helper()
	ctx := t.Context()
	kind, err := rdb.Type(ctx, key).Result()
	must(t, err)
	var value any
	switch kind {
	case "string":
		value, err = rdb.Get(ctx, key).Result()
	case "hash":
		value, err = rdb.HGetAll(ctx, key).Result()
	case "set":
		value, err = rdb.SMembersMap(ctx, key).Result()
	case "zset":
		value, err = rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "list":
		value, err = rdb.LRange(ctx, key, 0, -1).Result()
	case "stream":
		value, err = rdb.XLen(ctx, key).Result()
	}
	must(t, err)
	return fmt.Sprint(value)
}
