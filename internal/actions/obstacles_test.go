package actions_test

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/deliveries"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/status"
)

// TestRecordObstacles: the activity has the beginning of an obstacle that has lasted a minute, and
// its end, each once, whichever worker looks.
func TestRecordObstacles(t *testing.T) {
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		redistest.Mini(t) // minutes pass
		rdb := redistest.New(t)
		by := activity.Author{Redis: rdb, Logger: slog.New(slog.DiscardHandler), Name: "worker"}
		limiter := pace.New(pace.Config{Redis: rdb, Tenant: "acme",
			Limit: pace.Limit{Rate: pace.Rate{Count: 2, Per: time.Second}, Burst: 2}})
		start := time.Now()
		refuse := func(pause time.Duration) {
			limiter.Answered(t.Context(), schema.OpGetDiscoveryDomain, http.StatusTooManyRequests, nil, pause)
		}
		noToken := &obstacle.NoToken{Why: errors.New("no token: 401"), Since: start}
		failing := map[string]deliveries.Failing{"crm": {Since: start, Reason: "it answered 503"}}

		// A minute passes before each step. Two workers look after it.
		recorded := 0
		for _, step := range []struct {
			name    string
			does    func()
			token   *obstacle.NoToken
			failing map[string]deliveries.Failing
			want    []string
		}{
			{"a webhook and the token", func() {}, noToken, failing, []string{
				"obstacle began: no token: 401, since 2000-01-01T00:00:00Z",
				"obstacle began: webhooks fail since 2000-01-01T00:00:00Z: it answered 503"}},
			{"the same", func() {}, noToken, failing, nil},
			{"a webhook that fails a moment later", func() {}, nil, map[string]deliveries.Failing{
				"crm": failing["crm"], "desk": {Since: start.Add(150 * time.Second)}},
				[]string{"obstacle ended: no token: 401, since 2000-01-01T00:00:00Z"}},
			{"none", func() { refuse(time.Second) }, nil, nil,
				[]string{"obstacle ended: webhooks fail since 2000-01-01T00:00:00Z: it answered 503"}},
			{"a pause that is over", func() {}, nil, nil, nil},
			{"a pause that lasts", func() { refuse(90 * time.Second) }, nil, nil, []string{
				"obstacle began: the API has accepted no request since 2000-01-01T00:03:00Z (429)"}},
			{"the same, over but not tried", func() {}, nil, nil, nil},
			{"a request is accepted", func() {
				if err := limiter.Wait(t.Context(), pace.Request{Operation: schema.OpGetDiscoveryDomain}); err != nil {
					t.Fatal(err)
				}
				limiter.Answered(t.Context(), schema.OpGetDiscoveryDomain, http.StatusOK, nil, 0)
			}, nil, nil, []string{"obstacle ended: the API has accepted no request since 2000-01-01T00:03:00Z (429)"}},
			{"a block", func() {
				if err := limiter.Block(t.Context(), schema.OpGetDiscoveryDomain, "403", "grant it"); err != nil {
					t.Fatal(err)
				}
			}, nil, nil, nil},
		} {
			step.does()
			time.Sleep(time.Minute)
			for range 2 {
				one, err := status.ReadDetails(t.Context(), rdb, "acme", nil)
				if err != nil {
					t.Fatal(err)
				}
				one.Known.Token = step.token
				one.Failing = step.failing
				if err := actions.RecordObstacles(t.Context(), by, one); err != nil {
					t.Fatal(err)
				}
			}
			page, _, err := activity.Page(t.Context(), rdb, activity.Query{Tenants: []string{"acme"}, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range slices.Backward(page[:len(page)-recorded]) {
				got = append(got, string(e.Action)+": "+e.Result)
			}
			recorded = len(page)
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}
