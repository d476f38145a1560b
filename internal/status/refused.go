package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/meters"
	"orgops/internal/pace"
	"orgops/internal/stamp"
)

const (
	// refusedLong is how long the API refuses requests before a person should act: a pause that it
	// asks for is usually one of seconds.
	refusedLong = 10 * time.Minute
	// refusedShown is how long it refuses some of them before their share is shown. Until then, and
	// as long as all are refused, its pauses are shown, each with its end.
	refusedShown = 2 * time.Minute
	// tolerated is the share of refused requests, one in so many, that is normal near the limit: the
	// alert OrgopsTooManyRequests has it too.
	tolerated = 50
	// unheard is the longest time without requests within the time in which the API refuses them, and
	// heard is that at its end: later nothing is known of the API, unless its pause goes on.
	unheard = 5 * time.Minute
	heard   = 2 * time.Minute
	// mostSenders is how many runs are named as those that send requests.
	mostSenders = 3
)

// Refused says that the API has refused requests of a tenant by 429s for more than two minutes,
// or all of them for more than ten, and which runs send the requests.
type Refused struct {
	// Since is when that began, at most an hour ago unless no request was accepted since.
	Since time.Time `json:"since"`
	// Requests and Refused count the requests since then. There are none if the one before has led
	// to a pause that goes on.
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
	// Long reports whether that is ten minutes ago, so that a person should act.
	Long bool `json:"-"`
	// Runs are those of the last ten minutes.
	Runs []meters.RunRequests `json:"requests_by_run,omitempty"`
}

// refusedIn returns since when the API has refused requests, by the hour before the state of the
// budget was read; nil: it does not, or not for long enough to be shown. It refuses them in a
// minute if that has more refused ones than are normal, and as long as a pause has lasted in which
// none was accepted.
func refusedIn(hour []meters.Period, s pace.State) *Refused {
	// From the newest minute backwards, to the first that was normal, or to a time without requests.
	r := Refused{Since: s.RefusedSince}
	last := cmp.Or(r.Since, s.At)
	longest := unheard
	if r.Since.IsZero() {
		longest = heard
	}
	for _, minute := range slices.Backward(hour) {
		refused := minute.Counts[meters.Refused]
		all := refused + minute.Counts[meters.Answered]
		if all == 0 {
			continue
		}
		if refused == 0 && s.At.Sub(minute.At) < time.Minute { // it has only begun
			continue
		}
		if refused*tolerated <= all || last.Sub(minute.At) >= longest+time.Minute {
			break
		}
		longest = unheard
		r.Requests += all
		r.Refused += refused
		last = minute.At
		if r.Since.IsZero() || minute.At.Before(r.Since) {
			r.Since = minute.At
		}
	}

	lasted := s.At.Sub(r.Since)
	r.Long = lasted >= refusedLong
	if r.Since.IsZero() || lasted < refusedShown || (r.Requests == 0 && !r.Long) {
		return nil
	}
	return &r
}

// readRefused reads whether the API refuses requests of a tenant, whose budget was read.
func readRefused(ctx context.Context, rdb redis.Cmdable, tenant string, budget pace.State) (*Refused, error) {
	hour, err := meters.ReadHour(ctx, rdb, tenant, budget.At)
	if err != nil {
		return nil, err
	}
	r := refusedIn(hour, budget)
	if r != nil {
		r.Runs, err = meters.ReadRuns(ctx, rdb, tenant, budget.At)
	}
	return r, err
}

// String returns how much is refused, and since when.
func (r Refused) String() string {
	if r.Requests == 0 {
		return "the API has accepted no request since " + stamp.UTC(r.Since) + " (429)"
	}
	return fmt.Sprintf("the API has refused %.0f %% of the requests since %s (429): %s of %s",
		100*float64(r.Refused)/float64(r.Requests), stamp.UTC(r.Since), Grouped(r.Refused), Grouped(r.Requests))
}

// senders returns the runs that have sent the most requests; "": none has.
func (r Refused) senders() string {
	var parts []string
	var others int64
	for _, run := range r.Runs {
		if run.Run == "" || len(parts) == mostSenders {
			others += run.Requests
			continue
		}
		parts = append(parts, fmt.Sprintf("%s of run %s", Grouped(run.Requests), run.Run))
	}
	if others > 0 {
		parts = append(parts, Grouped(others)+" of others")
	}
	if len(parts) == 0 {
		return ""
	}
	return "requests in the last ten minutes: " + strings.Join(parts, ", ")
}
