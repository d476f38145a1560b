package health

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/internal/pace"
	"orgops/internal/status"
)

type shut struct{ err error }

func (s shut) Wait(context.Context, apiclient.Request) error                     { return s.err }
func (s shut) Answered(context.Context, string, int, http.Header, time.Duration) {}

// TestHeldBack: if the gate let no request through, the finding does not blame the network.
func TestHeldBack(t *testing.T) {
	for want, err := range map[string]error{
		"warning  : the API is not queried: no permit for a request: the API said 429: again in 3m0s -> wait": &pace.NoPermitError{
			After: 3 * time.Minute, Why: "the API said 429",
		},
		"wrong    : the API is not queried: list_organizations is blocked: insufficient_scope read:organizations: tried again in 1m0s -> grant the client": &pace.BlockedError{
			Operation: "list_organizations", Reason: "insufficient_scope read:organizations", After: time.Minute,
		},
		"warning  : the API is not queried: no permit came in time -> try again": context.DeadlineExceeded,
		"warning  : the API is not queried: dial tcp: connection refused -> fix redis first": errors.New(
			"dial tcp: connection refused"),
	} {
		headers := &Headers{Gate: shut{err}}
		tenant := Tenant{Tokens: apiclient.StaticToken(apiclient.NewSecret("abc")), Headers: headers}
		api, failed := apiclient.New(apiclient.Config{BaseURL: "https://127.0.0.1:1/api/v2",
			Tokens: tenant.Tokens, Gate: headers})
		if failed != nil {
			t.Fatal(failed)
		}
		tenant.API = api
		found := tenant.api(t.Context())
		if last := found[len(found)-1].String(); !strings.HasPrefix(last, want) {
			t.Errorf("got %q, want %q", last, want)
		}
	}
}

// TestTokenFacts checks what a tenant's page says of a token in each state.
func TestTokenFacts(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		health apiclient.TokenHealth
		want   []status.Fact
	}{
		{"not used", apiclient.TokenHealth{}, []status.Fact{{Name: "state", Text: "not fetched yet"}}},
		{
			"valid", apiclient.TokenHealth{GotAt: at, ExpiresAt: at.Add(time.Hour), Scopes: []string{"a", "b\x1b"}},
			[]status.Fact{
				{Name: "state", Text: "ok, fetched 2026-11-20T08:00:00Z"},
				{Name: "expires", Text: "2026-11-20T09:00:00Z (renewed automatically)"},
				{Name: "scopes", Text: `a b\x1b`},
			},
		},
		{
			"refused",
			apiclient.TokenHealth{GotAt: at, Since: at.Add(time.Minute), Err: errors.New("401"),
				LastErr: errors.New("denied"), Failures: 2},
			[]status.Fact{
				{Name: "state", Text: "no valid token since 2026-11-20T08:01:00Z"}, {Name: "last error", Text: "denied"}, {Name: "failures", Text: "2"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, TokenFacts(tt.health)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}
