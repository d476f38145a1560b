package health_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/health"
	"orgops/internal/pace"
	"orgops/internal/redistest"
)

func shortly(all []health.Finding) (lines []string) {
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", f.Subject, f.Level, f.Text))
	}
	return lines
}

func TestReadinessChecksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		slow := func(takes time.Duration, f health.Finding) func(context.Context) health.Finding {
			return func(context.Context) health.Finding {
				checks.Add(1)
				time.Sleep(takes)
				return f
			}
		}
		r := health.NewReadiness(
			health.Check{Subject: "a", Test: slow(2*time.Second, health.Finding{Level: health.Wrong, Text: "bad"})},
			health.Check{Subject: "b", Test: slow(2*time.Second, health.Finding{Level: health.Warning, Text: "so so"})},
			health.Check{Subject: "hangs", Test: slow(20*time.Second, health.Finding{Level: health.OK})},
			health.Check{Subject: "obeys", Test: func(ctx context.Context) health.Finding {
				<-ctx.Done()
				return health.Finding{Level: health.Wrong, Text: fmt.Sprint("ping: ", ctx.Err())}
			}})
		want := func(hangs string) {
			t.Helper()
			want := []string{"a: wrong: bad", "b: warning: so so", "hangs: wrong: " + hangs,
				"obeys: wrong: this check has not answered for 2.5s"}
			if diff := cmp.Diff(want, shortly(r.Findings(t.Context()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		begun := time.Now()
		want("this check has not answered for 2.5s")
		if took := time.Since(begun); took != 2500*time.Millisecond {
			t.Errorf("it took %s, want 2.5s", took)
		}
		want("this check has not answered for 2.5s") // remembered
		if checks.Load() != 3 || time.Since(begun) != 2500*time.Millisecond {
			t.Errorf("%d checks by %s, want 3: the second result is shared", checks.Load(), time.Since(begun))
		}
		time.Sleep(2 * time.Second)
		want("this check has not answered for 4.5s")
		if checks.Load() != 5 { // the check that hangs is not started again
			t.Errorf("%d checks, want 5", checks.Load())
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if checks.Load() != 5 {
			t.Errorf("%d checks, want 5: there was no request", checks.Load())
		}
	})
}

// The first caller may leave; the others still get the findings.
func TestReadinessOfACancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := health.NewReadiness(health.Check{Subject: "a", Test: func(context.Context) health.Finding {
			time.Sleep(time.Second)
			return health.Finding{Level: health.OK}
		}})
		leaving, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if diff := cmp.Diff([]string{"a: wrong: this check has not answered for 0s"},
			shortly(r.Findings(leaving))); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a: ok: "}, shortly(r.Findings(t.Context()))); diff != "" {
			t.Errorf("stayed (-want +got):\n%s", diff)
		}
	})
}

// TestReadinessRoundTrips checks that the checks of 150 tenants take as many round trips as
// those of three, and that each tenant has its own results.
func TestReadinessRoundTrips(t *testing.T) {
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		rdb, count := redistest.New(t), new(redistest.RoundTrips)
		served := health.Served{AwaitsToken: func() bool { return false }}
		resolver, err := dnscheck.ParseResolver("127.0.0.1:1") // it refuses queries at once
		if err != nil {
			t.Fatal(err)
		}
		if served.DNS, err = dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{resolver}}); err != nil {
			t.Fatal(err)
		}
		defer served.DNS.Close()
		if served.API, err = apiclient.New(apiclient.Config{
			BaseURL: "https://127.0.0.1:1/api/v2", Tokens: apiclient.StaticToken(apiclient.NewSecret("abc")),
		}); err != nil {
			t.Fatal(err)
		}
		check := func(tenants int) (took int64) {
			all := slices.Repeat([]health.Served{served}, tenants)
			for i := range all {
				all[i].Settings.Tenant = fmt.Sprint("tenant-", i)
			}
			before := count.Load()
			for _, f := range health.OfWorker(rdb, all).Findings(t.Context()) {
				if strings.HasSuffix(f.Subject, " token") || strings.HasSuffix(f.Subject, " resolvers") {
					continue // not of Redis
				}
				stopped := f.Subject == "tenant tenant-1"
				if f.Level == health.Wrong || strings.Contains(f.Text, "stopped by me") != stopped {
					t.Errorf("%s", f)
				}
			}
			return count.Load() - before
		}
		if _, err := pace.New(pace.Config{Redis: rdb, Tenant: "tenant-1"}).Stop(t.Context(), "me", ""); err != nil {
			t.Fatal(err)
		}
		check(3) // connects, and stores the scripts
		rdb.AddHook(count.Hook())
		few, many := check(3), check(150)
		if few == 0 || many != few {
			t.Errorf("%d round trips for 3 tenants, %d for 150", few, many)
		}
	})
}
