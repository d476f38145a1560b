package main

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/tasks"
)

// resetting is a proxy before a tenant's API. After every so many requests, it resets each
// idle connection at the next GET on it. It resets no writes: a worker would search for the
// result of a lost write after a minute only.
type resetting struct {
	t        *testing.T
	listener net.Listener
	target   *url.URL
	every    int64
	seen     atomic.Int64 // requests of the API, answered or not
}

func startResetting(t *testing.T, target string, every int64) *resetting {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &resetting{t: t, listener: listener, target: to, every: every}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn.(*net.TCPConn))
		}
	}()
	return p
}

func (p *resetting) url() string { return "http://" + p.listener.Addr().String() }

func (p *resetting) serve(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for era := p.seen.Load() / p.every; ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if p.seen.Add(1)/p.every > era && req.Method == http.MethodGet {
			_ = conn.SetLinger(0) // closing resets
			return
		}
		req.URL.Scheme, req.URL.Host, req.RequestURI = p.target.Scheme, p.target.Host, ""
		answer, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return
		}
		err = answer.Write(conn)
		_ = answer.Body.Close()
		if err != nil {
			return
		}
	}
}

// TestResetConnectionsCostPermits has the API reset idle connections repeatedly. At most as
// many requests reach it as permits were granted, and every row is done.
func TestResetConnectionsCostPermits(t *testing.T) {
	t.Parallel()
	const rows = 300
	f := assemble(t)
	front := startResetting(t, f.authURL, 50)
	f.env["ORGOPS_AUDIENCE"] = f.env["ORGOPS_BASE_URL"] + "/"
	f.env["ORGOPS_BASE_URL"] = front.url() + "/api/v2"
	f.env["ORGOPS_RATE"], f.env["ORGOPS_BURST"] = "100/s", "30"
	_, file := fetch(t, http.MethodGet, f.authURL+"/_sandbox/rows/updates.csv?n=300", "")
	f.handIn(ledger.NewRun{ID: "job"}, tasks.TypeUpdate, []byte(file))
	f.work("one")
	if r := f.ended("job"); r.Counts["done"]+r.Counts["unchanged"] != rows {
		t.Errorf("counts %v, want %d rows done or unchanged", r.Counts, rows)
	}
	limit, err := pace.ParseRate("100/s")
	if err != nil {
		t.Fatal(err)
	}
	state, err := pace.New(pace.Config{Redis: f.redis, Tenant: tasks.DefaultTenant,
		Limit: pace.Limit{Rate: limit, Burst: 30}}).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seen := front.seen.Load(); seen > state.UsedLastMinute || seen < rows {
		t.Errorf("%d requests reached the API for %d permits", seen, state.UsedLastMinute)
	}
}
