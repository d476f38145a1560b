package followup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/engine/kinds"
	"orgops/internal/followup"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

const (
	tenant = ledger.Tenant("acme")
	day    = 24 * time.Hour
)

// site is a tenant with watched domains.
type site struct {
	*ledger.Ledger
	t   *testing.T
	rdb redis.UniversalClient
	now time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	rdb := redistest.New(t)
	s := &site{Ledger: ledger.New(rdb), t: t, rdb: rdb}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.now = now
	return s
}

// worker returns the follow-up of a worker with a client of its own.
func (s *site) worker(hooks ...redis.Hook) *followup.FollowUp {
	rdb := redistest.New(s.t)
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	f := followup.New(followup.Config{
		Tenant: tenant, Ledger: ledger.New(rdb), States: &sweep.States{Tenant: string(tenant), Store: sweep.NewStore(rdb, string(tenant))},
	})
	f.SetVerifyAfter(time.Millisecond)
	return f
}

// due stores the state of a domain that is due by the sweep of now.
func (s *site) due(id string) {
	s.t.Helper()
	at := s.now.UTC().Truncate(time.Second)
	since := at.Add(-9 * day)
	s.put(id, sweep.DomainState{
		V: 1, OrganizationID: "org_1", Domain: "a.example", State: "absent", Tick: at.Unix(), At: at, Host: "h.example", TXT: "t",
		Absence: &sweep.Absence{Since: since, Tick: since.Unix(), Last: at, LastTick: at.Unix(), Checks: 9},
	})
}

// allDue is like due for many domains, by fewer commands: they have the state of the first.
func (s *site) allDue(ids []string) {
	s.t.Helper()
	s.due(ids[0])
	const key = "orgops:v1:{watch:acme}:"
	state, err := s.rdb.Get(s.t.Context(), key+"domain:"+ids[0]).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.rdb.Pipelined(s.t.Context(), func(p redis.Pipeliner) error {
		for _, id := range ids[1:] {
			p.Set(s.t.Context(), key+"domain:"+id, state, day)
			p.SAdd(s.t.Context(), key+"attended", id)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// present stores that the token of the domain is there again.
func (s *site) present(id string) {
	s.t.Helper()
	s.put(id, sweep.DomainState{V: 1, OrganizationID: "org_1", State: "present", Tick: s.now.Unix()})
}

func (s *site) put(id string, state sweep.DomainState) {
	s.t.Helper()
	states := sweep.States{Tenant: string(tenant), Store: sweep.NewStore(s.rdb, string(tenant))}
	if _, err := states.Change(s.t.Context(), id, func(to *sweep.DomainState) { *to = state }); err != nil {
		s.t.Fatal(err)
	}
}

// ended returns a sweep of now whose run has ended.
func (s *site) ended(id ledger.RunID) ledger.Run {
	return s.endedOf(id, sweep.Progress{Tick: s.now.Unix(), Read: 1000, Ended: true})
}

func (s *site) endedOf(id ledger.RunID, p sweep.Progress) ledger.Run {
	s.t.Helper()
	progress, err := json.Marshal(p)
	if err != nil {
		s.t.Fatal(err)
	}
	return ledger.Run{ID: id, Tenant: tenant, Kind: kinds.Recheck, EndedAt: s.now, Scan: &ledger.Scan{Progress: progress, Ended: true}}
}

func (s *site) actions(id ledger.RunID) ledger.RunID {
	return ledger.RunID(fmt.Sprintf("act-%s-%d", id, s.now.Unix()))
}

func (s *site) checks() ledger.RunID {
	return ledger.RunID(fmt.Sprintf("relook-%s-%d", tenant, s.now.Truncate(time.Hour).Unix()))
}

// ids returns the domains of the rows of a committed run.
func (s *site) ids(id ledger.RunID) (ids []string) {
	s.t.Helper()
	for _, row := range s.rows(id) {
		var r kinds.HourlyRow
		if err := json.Unmarshal(row.Content, &r); err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, r.DiscoveryDomainID)
	}
	slices.Sort(ids)
	return ids
}

func (s *site) rows(id ledger.RunID) (all []ledger.RowState) {
	s.t.Helper()
	p, err := s.Sync(s.t.Context(), id)
	if err != nil || p.Run.Staged() || p.Run.Growing || len(p.Missing) > 0 {
		s.t.Fatalf("run %s: %+v, %v: want it committed", id, p, err)
	}
	for _, seg := range p.Segments {
		for from := ledger.Row(0); ; {
			page, err := s.Rows(s.t.Context(), seg.Segment, from, 128)
			if err != nil {
				s.t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			all = append(all, page...)
			from = page[len(page)-1].Row + 1
		}
	}
	return all
}

// none fails if the run exists.
func (s *site) none(id ledger.RunID) {
	s.t.Helper()
	if run, err := s.Get(s.t.Context(), id); !errors.Is(err, ledger.ErrNotFound) {
		s.t.Errorf("run %s: %+v, %v: want none", id, run, err)
	}
}

// stage stages a run of one row.
func (s *site) stage(n ledger.NewRun, row string) (ledger.Run, []ledger.Sum) {
	s.t.Helper()
	run, _, err := s.Create(s.t.Context(), n)
	if err != nil {
		s.t.Fatal(err)
	}
	sum, err := s.Stage(s.t.Context(), run, 0, true, [][]byte{[]byte(row)})
	if err != nil {
		s.t.Fatal(err)
	}
	return run, []ledger.Sum{sum}
}

// wantIDs compares domains.
func wantIDs(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("domains %q, want %q", got, want)
	}
}

var errKilled = errors.New("killed")

// killer is a hook that ends a process before or after a command: that one and all later
// ones fail. It counts commands.
type killer struct {
	mu    sync.Mutex
	at    int // the command, from 0; -1: none
	after bool
	n     int
	do    func() // before that command, instead of an end; nil: none
}

func (k *killer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (k *killer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return k.around(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (k *killer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return k.around(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (k *killer) around(call func() error, cmds ...redis.Cmder) error {
	if slices.Contains([]string{"hello", "client", "auth", "select", "cluster", "command", "readonly"}, cmds[0].Name()) {
		return call()
	}
	k.mu.Lock()
	n := k.n
	k.n++
	k.mu.Unlock()
	if k.do != nil {
		if n == k.at {
			k.do()
		}
		return call()
	}
	if k.at < 0 || n < k.at {
		return call()
	}
	if n == k.at && k.after {
		_ = call()
	}
	for _, cmd := range cmds {
		cmd.SetErr(errKilled)
	}
	return errKilled
}

// died reports whether the process was ended.
func (k *killer) died() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at >= 0 && k.n > k.at
}
