package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
	"orgops/internal/discovery"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

// TestCheckIsInterrupted has a resolver that never answers, and interrupts the command once
// the resolver is queried.
func TestCheckIsInterrupted(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("verification_host,verification_txt\n")
	for i := range 3 * rowsAtOnce {
		fmt.Fprintf(&rows, "_v%d.example.com,token\n", i)
	}
	for name, test := range map[string]struct {
		args  []string
		stdin string
	}{
		"one record": {[]string{"--host", "_v.example.com", "--txt", "token"}, ""},
		"a file":     {[]string{"-"}, rows.String()},
	} {
		t.Run(name, func(t *testing.T) {
			resolver, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resolver.Close() }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_, _, _ = resolver.ReadFrom(make([]byte, 512))
				cancel()
			}()
			status, stdout, stderr := check(ctx, resolver.LocalAddr().String(), test.stdin, test.args...)
			if status != cli.StatusInterrupted || stdout != "" {
				t.Errorf("exit status %d, stdout %q, stderr %q; want %d and nothing", status, stdout, stderr, cli.StatusInterrupted)
			}
		})
	}
}

// TestRowsAreCheckedConcurrently completes the concurrent checks in reverse order.
func TestRowsAreCheckedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 3*rowsAtOnce + 1
		var mu sync.Mutex
		waiting := make(map[string]chan struct{})
		records := func(yield func(toCheck, error) bool) {
			for i := range all {
				if !yield(toCheck{Domain: discovery.Domain{Host: fmt.Sprintf("%03d", i)}}, nil) {
					return
				}
			}
		}
		ask := func(_ context.Context, r toCheck) (status.CheckResult, error) {
			mine := make(chan struct{})
			mu.Lock()
			waiting[r.Host] = mine
			mu.Unlock()
			<-mine
			return status.CheckResult{Host: r.Host}, nil
		}
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for found, err := range inOrder(t.Context(), records, ask) {
				if err != nil {
					t.Error(err)
				}
				got = append(got, found.Host)
			}
		}()
		for left := all; left > 0; left-- {
			synctest.Wait()
			mu.Lock()
			hosts := slices.Sorted(maps.Keys(waiting))
			if left == all && len(hosts) != rowsAtOnce || len(hosts) > rowsAtOnce {
				t.Fatalf("%d rows at a time, want %d", len(hosts), rowsAtOnce)
			}
			last := hosts[len(hosts)-1]
			close(waiting[last])
			delete(waiting, last)
			mu.Unlock()
		}
		<-done
		if !slices.IsSorted(got) || len(got) != all {
			t.Errorf("rows in the order %q", got)
		}
	})
}

// TestRowsEndWithAnError checks that the rows before an error are returned, and none after it.
func TestRowsEndWithAnError(t *testing.T) {
	broken := errors.New("line 3 is broken")
	records := func(yield func(toCheck, error) bool) {
		of := func(host string) toCheck { return toCheck{Domain: discovery.Domain{Host: host}} }
		_ = yield(of("first"), nil) && yield(of("second"), nil) && yield(toCheck{}, broken) && yield(of("fourth"), nil)
	}
	var hosts []string
	var failed error
	for found, err := range inOrder(t.Context(), records,
		func(_ context.Context, r toCheck) (status.CheckResult, error) {
			return status.CheckResult{Host: r.Host}, nil
		}) {
		if failed = err; err == nil {
			hosts = append(hosts, found.Host)
		}
	}
	if diff := cmp.Diff([]string{"first", "second"}, hosts); diff != "" || !errors.Is(failed, broken) {
		t.Errorf("hosts (-want +got):\n%s\nerror %v", diff, failed)
	}
}

// TestCheckQueriesTheTenantsResolvers checks that the command queries the resolvers announced
// by the tenant's workers, unless a flag names others.
func TestCheckQueriesTheTenantsResolvers(t *testing.T) {
	box, err := sandbox.Start(sandbox.Options{Resolvers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	box.SetTXT("_v.shop.example", "token")
	client := redistest.New(t)
	_, err = tenant.Announce(t.Context(), client, tenant.Announced{Tenant: "acme", Rate: "2/s",
		Resolvers: box.DNSAddrs(), ResolverQuorum: 3, DNSMode: "resolvers"})
	if err != nil {
		t.Fatal(err)
	}
	asked := func(env []string, args ...string) (status int, stdout, stderr string) {
		t.Helper()
		var out, log bytes.Buffer
		args = append([]string{"domains", "check", "--host", "_v.shop.example", "--txt", "token"}, args...)
		status = run(t.Context(), args, strings.NewReader(""), &out, &log, append(env, "ORGOPS_REDIS_URL="+redistest.URL(t)))
		return status, out.String(), log.String()
	}
	status, stdout, stderr := asked(nil, "--tenant", "acme", "--json")
	if status != 0 || !strings.Contains(stdout, `"quorum":3,"resolvers":3`) ||
		!strings.Contains(stderr, "querying the resolvers of the tenant's workers") {
		t.Errorf("status %d, stdout %s\nstderr %s", status, stdout, stderr)
	}
	for _, env := range [][]string{nil, {"ORGOPS_RESOLVERS=" + box.DNSAddr()}} { // by a flag, and by the environment
		args := []string{"--tenant", "acme", "--dns-mode", "resolvers"}
		if env == nil {
			args = append(args, "--resolvers", box.DNSAddr())
		}
		status, stdout, stderr = asked(env, args...)
		if status != cli.StatusRejected || !strings.Contains(stdout, "too_few_resolvers") ||
			strings.Contains(stderr, "tenant's workers") {
			t.Errorf("status %d, stdout %s\nstderr %s", status, stdout, stderr)
		}
	}
}

// check runs the command with one resolver.
func check(ctx context.Context, resolver, stdin string, args ...string) (status int, stdout, stderr string) {
	env := []string{"ORGOPS_RESOLVERS=" + resolver, "ORGOPS_DNS_MODE=resolvers"}
	var out, log bytes.Buffer
	status = run(ctx, append([]string{"domains", "check"}, args...), strings.NewReader(stdin), &out, &log, env)
	return status, out.String(), log.String()
}
