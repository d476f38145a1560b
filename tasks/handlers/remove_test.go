package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// clients returns n client IDs. The names of those at bad mark them.
func clients(n int, bad ...int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("client_%03d", i)
		if slices.Contains(bad, i) {
			id = fmt.Sprintf("bad_%03d", i)
		}
		ids = append(ids, id)
	}
	return ids
}

func removalRows(organization string, clients ...string) (rows []string) {
	for _, c := range clients {
		row, _ := json.Marshal(tasks.RemoveRow{OrganizationID: organization, ClientID: c})
		rows = append(rows, string(row))
	}
	return rows
}

// removing returns a site with rows that remove these clients. A request names at most so
// many of them.
func removing(t *testing.T, most int, ids []string, change ...func(*sandbox.Options)) removals {
	t.Helper()
	s := removals{newSite(t, change...), most}
	s.sandbox.AddOrganization(org, "one")
	if len(ids) > 0 {
		s.sandbox.AddClients(org, ids...)
		s.Submit(handlers.Remove, removalRows(org, ids...)...)
	}
	return s
}

// removals is a site with rows that remove clients.
type removals struct {
	*site
	most int
}

// worker returns a worker around whose calls s.on is called.
func (s removals) worker() (*engine.Engine, ledger.SessionID) {
	e, session := s.Worker(func(c *engine.Config) {
		c.Ledger = stepped{c.Ledger, s.around}
		c.Handlers[handlers.Remove] = handlers.NewRemove(handlers.RemoveConfig{
			API:                  func(b apiclient.Binding) handlers.Clients { return steppedClients{s.api.For(b), s.around} },
			MaxClientsPerRequest: s.most, Limit: pace.NewClientLimit(s.Redis, string(tenant))})
	})
	s.StopClock()
	return e, session
}

type steppedClients struct {
	handlers.Clients
	step func(name string, call func())
}

func (c steppedClients) RemoveOrganizationClients(ctx context.Context, organization string,
	clients []string) (err error) {
	c.step("DELETE", func() { err = c.Clients.RemoveOrganizationClients(ctx, organization, clients) })
	return err
}

// deletes returns the clients that each removal named.
func (s *site) deletes() (all [][]string) {
	for _, r := range s.sandbox.Requests() {
		if r.Operation == sandbox.OpRemoveOrganizationClients {
			all = append(all, r.Clients)
		}
	}
	return all
}

// named returns how many removals named each client.
func (s *site) named() map[string]int {
	n := map[string]int{}
	for _, clients := range s.deletes() {
		for _, c := range clients {
			n[c]++
		}
	}
	return n
}

func (s *site) counts() ledger.Counts {
	s.t.Helper()
	run, err := s.Get(s.t.Context(), "", s.Run.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return run.Counts
}

// refuseBad makes the tenant refuse every removal that names a bad client.
func (s *site) refuseBad() {
	isBad := func(c string) bool { return strings.HasPrefix(c, "bad_") }
	s.sandbox.AddFault(sandbox.Fault{
		Operation: sandbox.OpRemoveOrganizationClients,
		Match:     func(r sandbox.Request) bool { return slices.ContainsFunc(r.Clients, isBad) },
		Status:    http.StatusBadRequest,
		Body:      `{"statusCode":400,"error":"Bad Request","message":"Payload validation error: no such client","errorCode":"invalid_body"}`,
	})
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// TestBadClients has batches with clients that the API refuses: the others are removed,
// each row has its own answer, and no attempt is counted.
func TestBadClients(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		bad      []int
		requests int // at most
	}{
		{"none", nil, 1},
		{"one", []int{37}, 16},
		{"the first", []int{0}, 16},
		{"two far apart", []int{3, 96}, 30},
		{"two neighbours", []int{50, 51}, 30},
		{"every other", slices.DeleteFunc(upTo(100), func(i int) bool { return i%2 == 0 }), 210},
		{"all", upTo(100), 107},
		{"the first half", upTo(50), 70},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := clients(100, c.bad...)
			s := removing(t, 0, all)
			s.refuseBad()
			e, _ := s.worker()
			s.drainBounded(e, 64)
			if n := s.counts(); n[ledger.Refused] != int64(len(c.bad)) || n[ledger.Done] != int64(100-len(c.bad)) {
				t.Errorf("counts %v, want %d refused and the others done", n, len(c.bad))
			}
			rows, left := s.AllRows(), s.sandbox.Clients(org)
			for i, client := range all {
				bad, row := slices.Contains(c.bad, i), rows[i]
				if slices.Contains(left, client) != bad ||
					bad != (row.Result.Outcome == ledger.Refused && strings.Contains(row.Result.Detail, "no such client")) {
					t.Errorf("client %s: row %+v", client, row)
				}
			}
			if n := len(s.deletes()); n > c.requests {
				t.Errorf("%d requests, want at most %d", n, c.requests)
			}
			if limit, err := pace.NewClientLimit(s.Redis, string(tenant)).InUse(t.Context(), 100); err != nil || limit != 100 {
				t.Errorf("the limit is %d, %v: want 100", limit, err)
			}
		})
	}
}

// drainBounded executes rows until none is open. It checks the number of requests in one
// execution against the bound.
func (s *site) drainBounded(e *engine.Engine, requests int) {
	s.t.Helper()
	for end := time.Now().Add(enginetest.Patience); s.counts().Settled() < int64(s.Run.Rows); {
		if time.Now().After(end) {
			s.t.Fatalf("rows stay open: %v", s.counts())
		}
		task := s.NextTask()
		if task == nil {
			s.Rest()
			continue
		}
		before := len(s.deletes())
		_ = e.ProcessTask(s.t.Context(), task)
		if n := len(s.deletes()) - before; n > requests {
			s.t.Errorf("%d requests in one execution, want at most %d", n, requests)
		}
	}
	for n, row := range s.AllRows() {
		if row.Checkpoint.Attempts > 0 {
			s.t.Errorf("row %d: %d attempts", n, row.Checkpoint.Attempts)
		}
	}
}

// TestAllRefused has a tenant that refuses every removal, such as for a feature that is off. Once
// a worker has seen that, a client takes one request, also in later runs, until one is removed.
func TestAllRefused(t *testing.T) {
	t.Parallel()
	rows := redistest.Amount(90, 300)
	s := removing(t, 30, clients(rows))
	accept := s.sandbox.AddFault(sandbox.Fault{
		Operation: sandbox.OpRemoveOrganizationClients, Status: http.StatusBadRequest,
		Body: `{"statusCode":400,"error":"Bad Request","message":"the feature is off","errorCode":"invalid_body"}`,
	})
	e, _ := s.worker()
	s.drainBounded(e, 64)
	if n := len(s.deletes()); n > rows+10 || s.counts()[ledger.Refused] != int64(rows) {
		t.Errorf("%d requests for %d rows, counts %v", n, rows, s.counts())
	}
	later := func(id ledger.RunID, want int) {
		t.Helper()
		before := len(s.deletes())
		s.SubmitAs(id, handlers.Remove, removalRows(org, clients(20)...)...)
		s.drainBounded(e, 64)
		if n := len(s.deletes()) - before; n != want {
			t.Errorf("%d requests for 20 rows of run %s, want %d", n, id, want)
		}
	}
	later("refused", 20)
	accept()
	later("accepted", 2)
}

// TestClientLimit has a tenant that accepts fewer clients in a request. One batch finds the
// limit, and each later execution applies it.
func TestClientLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		accepts, limit int
		first          int // requests of the batch that finds it
	}{
		{99, 50, 3}, {50, 50, 3}, {30, 25, 7}, {10, 10, 16}, {8, 5, 30}, {7, 5, 30}, {1, 1, 150},
	} {
		t.Run(fmt.Sprint(c.accepts), func(t *testing.T) {
			t.Parallel()
			s := removing(t, 0, clients(100), func(o *sandbox.Options) { o.MaxClients = c.accepts })
			e, _ := s.worker()
			s.drainBounded(e, 64)
			if n := len(s.deletes()); n > c.first || s.counts()[ledger.Done] != 100 {
				t.Errorf("%d requests, want at most %d; counts %v", n, c.first, s.counts())
			}
			before := len(s.deletes())
			other := clients(100)
			s.sandbox.AddClients(org, other...)
			s.SubmitAs("b", handlers.Remove, removalRows(org, other...)...)
			e, _ = s.worker()
			s.drainBounded(e, 64)
			if n, want := len(s.deletes())-before, (100+c.limit-1)/c.limit; n != want || len(s.sandbox.Clients(org)) > 0 {
				t.Errorf("%d requests, want %d; %d clients are left", n, want, len(s.sandbox.Clients(org)))
			}
		})
	}
}

// TestRefusedBatch refuses a batch for a reason other than its clients: there is one request.
func TestRefusedBatch(t *testing.T) {
	fault := func(status int, body string) *sandbox.Fault {
		return &sandbox.Fault{Status: status, Body: body, Match: func(r sandbox.Request) bool { return len(r.Clients) == 50 }}
	}
	for name, c := range map[string]struct {
		fault *sandbox.Fault
		want  string
	}{
		"no such organization": {nil, "organization org_2 does not exist"},
		"path": {
			fault(400, `{"statusCode":400,"error":"Bad Request","message":"Path validation error","errorCode":"invalid_uri"}`),
			"Path validation error",
		},
		"forbidden": {fault(403, ""), "403"},
		"conflict":  {fault(409, ""), "409"},
	} {
		t.Run(name, func(t *testing.T) {
			s := removing(t, 0, nil)
			if c.fault != nil {
				s.sandbox.AddFault(*c.fault)
			}
			s.Submit(handlers.Remove, removalRows("org_2", clients(50)...)...)
			e, _ := s.worker()
			_ = e.ProcessTask(t.Context(), s.NextTask())
			for n, row := range s.AllRows() {
				if row.Result.Outcome != ledger.Refused || !strings.Contains(row.Result.Detail, c.want) {
					t.Errorf("row %d: %+v", n, row)
				}
			}
			if n := len(s.deletes()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// TestRemoveRows has rows of one task that are malformed, of a newer version, or name a
// client twice: each has its own answer.
func TestRemoveRows(t *testing.T) {
	s := removing(t, 0, nil)
	s.sandbox.AddClients(org, "a", "b")
	rows := removalRows(org, "a", "b", "a", "")
	s.Submit(handlers.Remove, append(rows, `[]`, `{"organization_id":"org_1","client_id":"c","new":1}`)...)
	e, _ := s.worker()
	_ = e.ProcessTask(t.Context(), s.NextTask())
	for n, want := range []ledger.Outcome{ledger.Done, ledger.Done, ledger.Done, ledger.InvalidRow,
		ledger.InvalidRow, ledger.Unrecognized} {
		row := s.Row(ledger.Row(n))
		have := row.Result.Outcome
		if row.Phase == ledger.PhaseWaiting && strings.Contains(row.Checkpoint.Note, "newer worker") {
			have = ledger.Unrecognized
		}
		if have != want {
			t.Errorf("row %d: %+v, want %s", n, row, want)
		}
	}
	if got := s.deletes(); len(got) != 1 || !slices.Equal(got[0], []string{"a", "b"}) {
		t.Errorf("requests %v, want one that names each client once", got)
	}
	for content, want := range map[string]string{rows[0]: org, `[]`: ""} {
		if got := tasks.OrganizationOf([]byte(content)); got != want {
			t.Errorf("group of %s: %q", content, got)
		}
	}
}

// TestRemoveOfTwoOrganizations has a task with rows of two organizations, which no dispatcher
// makes. They are refused, and no request is sent.
func TestRemoveOfTwoOrganizations(t *testing.T) {
	s := removing(t, 0, nil)
	s.sandbox.AddOrganization("org_2", "two")
	s.sandbox.AddClients(org, "a", "b")
	s.sandbox.AddClients("org_2", "a")
	s.Submit(handlers.Remove, append(removalRows(org, "a", "b"), removalRows("org_2", "a")...)...)
	e, _ := s.worker()
	_ = e.ProcessTask(t.Context(), s.NextTask())
	for n, row := range s.AllRows() {
		if r := row.Result; r.Outcome != ledger.Refused || !strings.Contains(r.Detail, "two organizations") {
			t.Errorf("row %d: %+v, want it refused", n, r)
		}
	}
	if len(s.sandbox.Clients(org)) != 2 || len(s.sandbox.Clients("org_2")) != 1 || len(s.deletes()) > 0 {
		t.Errorf("clients %v and %v, requests %v", s.sandbox.Clients(org), s.sandbox.Clients("org_2"), s.deletes())
	}
}

// TestLostRemoval has the API not answer, or not at once. The clients are removed, and a
// row whose request was answered is in no other.
func TestLostRemoval(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sandbox.Fault{
		"lost after": {DropAfter: true},
		"429":        {Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}},
		"500 after":  {Status: http.StatusInternalServerError, Handled: true},
		"a 400 page": {HTML: true, Status: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := removing(t, 10, clients(30))
			fault.Operation, fault.Skip, fault.Count = sandbox.OpRemoveOrganizationClients, 1, 1
			s.sandbox.AddFault(fault)
			e, _ := s.worker()
			_ = e.ProcessTask(t.Context(), s.NextTask())
			if n := s.counts(); n[ledger.Done] != 10 || n.Settled() != 10 {
				t.Errorf("counts %v, want 10 done", n)
			}
			s.Drain(e)
			if n := s.counts(); n[ledger.Done] != 30 || len(s.sandbox.Clients(org)) > 0 {
				t.Errorf("counts %v, %d clients left", n, len(s.sandbox.Clients(org)))
			}
			for client, n := range s.named() {
				if client < "client_010" && n != 1 || client >= "client_010" && client < "client_020" && n != 2 {
					t.Errorf("%d requests named %s", n, client)
				}
			}
		})
	}
}

// noJWT is the live service's answer to a bearer token that is no JWT.
const noJWT = `{"statusCode":400,"error":"Bad Request","message":"Bad HTTP authentication header format","errorCode":"Bearer"}`

// TestRemoveWithoutAJWT has the live service's answer to a token that is no JWT, the 400 of a
// body that it refuses: the batch is not split, no row is refused, and the tenant is blocked.
func TestRemoveWithoutAJWT(t *testing.T) {
	t.Parallel()
	s := removing(t, 0, clients(100))
	s.sandbox.AddFault(sandbox.Fault{Status: http.StatusBadRequest, Body: noJWT})
	e, _ := s.worker()
	_ = e.ProcessTask(t.Context(), s.NextTask())
	if n := len(s.deletes()); n != 1 || s.counts().Settled() != 0 {
		t.Errorf("%d requests, counts %v; want 1 and no settled row: %+v", n, s.counts(), s.Row(0).Result)
	}
}

// TestRemoveBehindASmallProxy has a proxy refuse large bodies with a page: smaller ones pass.
func TestRemoveBehindASmallProxy(t *testing.T) {
	t.Parallel()
	s := removing(t, 0, clients(40))
	s.sandbox.AddFault(sandbox.Fault{
		Operation: sandbox.OpRemoveOrganizationClients, Match: func(r sandbox.Request) bool { return len(r.Clients) > 10 },
		Status: http.StatusRequestEntityTooLarge, HTML: true, Body: "413 Request Entity Too Large",
	})
	e, _ := s.worker()
	s.drainBounded(e, 10)
	if n := s.counts(); n[ledger.Done] != 40 {
		t.Errorf("counts %v, want 40 done", n)
	}
}
