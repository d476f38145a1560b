package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

const (
	requestTimeout = 30 * time.Second
	// resolvers is their number; a quorum is two.
	resolvers = 3
)

func now() time.Time { return time.Now().UTC() }

// span is a time without its end.
type span struct{ from, to time.Time }

func (s span) holds(t time.Time) bool { return !t.Before(s.from) && t.Before(s.to) }

func (s span) meets(o span) bool { return s.from.Before(o.to) && o.from.Before(s.to) }

type spans []span

// seedOf returns ORGOPS_TEST_SEED, or a seed of the time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is a seed
	if text := os.Getenv("ORGOPS_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return seed
}

// conclude stores the summary of a sweep whose run has ended, as cmd/worker does.
func conclude(ctx context.Context, states *sweep.States, run ledger.Run) error {
	if run.Kind != handlers.Recheck || run.Scan == nil || run.Cancelled {
		return nil
	}
	var progress progress.Scan
	if err := json.Unmarshal(run.Scan.Progress, &progress); err != nil {
		return err
	}
	return states.Conclude(ctx, string(run.ID), progress)
}

type sentKey struct{}

// newAsking returns a client whose requests execute all steps before sending, and fail to
// send. It waits for the gate, if there is one, and calls the functions of the
// [apiclient.Binding].
func newAsking(t *testing.T, gate apiclient.Gate) *apiclient.Client {
	t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: "https://tenant.example/api/v2", Gate: gate, Tokens: apiclient.StaticToken(apiclient.NewSecret("token")),
		Network: apiclient.Network{Proxy: func(*url.URL) (*url.URL, error) {
			return nil, errors.New("a simulation has no network")
		}},
		Trace: func(ctx context.Context, _, _ string) (context.Context, func(int)) {
			if sent, ok := ctx.Value(sentKey{}).(*bool); ok {
				*sent = true
			}
			return ctx, func(int) {}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// sending returns why a request of a client of [newAsking] is not sent; nil: it is sent.
func sending(ctx context.Context, request func(context.Context) error) error {
	sent := new(bool)
	err := request(context.WithValue(ctx, sentKey{}, sent))
	if *sent {
		return nil
	}
	return err
}

func notFound(operation, method string) error {
	return &apiclient.Error{Operation: operation, Method: method, Path: "/x", Status: http.StatusNotFound,
		Title: "Not Found", Message: "No organization domain found by that id"}
}
