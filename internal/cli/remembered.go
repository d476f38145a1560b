package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/watch"
	"orgops/tasks"
)

// Remembered is what sweeps have written down of a discovery domain.
type Remembered struct {
	Tenant string
	ID     string
	tasks.Memory
}

// RememberedOf reads what is remembered of the tenant's domain of that id; ok is false
// where nothing is.
func RememberedOf(ctx context.Context, rdb redis.UniversalClient, tenant, id string) (r Remembered, ok bool, err error) {
	value, err := watch.New(rdb, tenant).Memory(ctx, id)
	if err != nil || value == nil {
		return Remembered{}, false, err
	}
	m, err := tasks.ReadMemory(value)
	if err != nil {
		return Remembered{}, false, fmt.Errorf("discovery domain %s of tenant %s: %w", id, tenant, err)
	}
	return Remembered{Tenant: tenant, ID: id, Memory: m}, true, nil
}

// Seen writes what was seen of the domain, two columns a line, what the rules need yet,
// and beneath it what has happened to it.
func (r Remembered) Seen(out io.Writer, rules tasks.Rules) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	line("swept", r.swept())
	line("seen last", r.state())
	line("found there", reason(strings.Join(r.Values, ", ")))
	line("present", r.present())
	line("absent", r.absent())
	line("action", Needs(rules, r.Memory))
	line("under way", acting(r.Acting))
	line("taken away", r.taken())
	if err := w.Flush(); err != nil || len(r.Past) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nWHEN\tWHAT\tWHY")
	for _, e := range r.Past {
		fmt.Fprintf(w, "%s\t%s\t%s\n", stamp(e.At), Shown(e.What), reason(e.Why))
	}
	return w.Flush()
}

func (r Remembered) swept() string {
	if r.Sweeps <= 1 {
		return "once, by the sweep of " + stamp(TickAt(r.Tick))
	}
	return fmt.Sprintf("%d times, last by the sweep of %s", r.Sweeps, stamp(TickAt(r.Tick)))
}

// TickAt is when a sweep was due.
func TickAt(tick int64) time.Time { return time.Unix(tick, 0).UTC() }

func (r Remembered) state() string {
	text := Shown(r.State)
	if r.Reason != "" {
		text += " (" + Shown(r.Reason) + ")"
	}
	text += ", at " + stamp(r.At)
	if r.Sentence != "" {
		text += ": " + reason(r.Sentence)
	}
	return text
}

func (r Remembered) present() string {
	if r.LastPresent.IsZero() {
		return "never seen by a sweep"
	}
	return fmt.Sprintf("from %s to %s", stamp(r.FirstPresent), stamp(r.LastPresent))
}

func (r Remembered) absent() string {
	a := r.Absence
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("since %s, last seen to be so at %s, by %s", stamp(a.Since), stamp(a.Last), sweeps(a.Checks))
	if a.Operator != "" {
		text += "; name servers of " + Shown(a.Operator)
	}
	return text
}

func sweeps(n int) string {
	if n == 1 {
		return "1 sweep"
	}
	return fmt.Sprintf("%d sweeps", n)
}

// acting says what is done, and at which record.
func acting(a *tasks.Acting) string {
	if a == nil {
		return ""
	}
	what := fmt.Sprintf("%s, begun at %s", done(a.Action), stamp(a.At))
	if a.Back {
		what = fmt.Sprintf("giving back what was taken away (%s), begun at %s", done(a.Action), stamp(a.At))
	}
	return what
}

// done is what an action does, in words.
func done(a tasks.Action) string {
	switch a {
	case tasks.ActUnroute:
		return "unroute: use_for_organization_discovery set to false"
	case tasks.ActPending:
		return "pending: status set to pending"
	case tasks.ActReport, "":
		return "report: told, and nothing else"
	}
	return Shown(string(a))
}

func (r Remembered) taken() string {
	if r.Taken == nil {
		return ""
	}
	return fmt.Sprintf("at %s (%s); given back once the TXT record at %s is seen again", stamp(r.Taken.At), done(r.Taken.Action), Shown(r.Taken.Host))
}

// stamp is a time as it is written everywhere.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// span is a time that is counted in days where it is long, rounded down.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d >= day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	case d >= day:
		return fmt.Sprintf("%.1f days", float64(d/(day/10))/10)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return d.Truncate(time.Second).String()
}

// Judgement is how a tenant's sweeps stand.
type Judgement struct {
	Judged  *tasks.Judged  // the last sweep that has come to its end; nil: none has
	Breaker *tasks.Breaker // nil: it was never opened
}

// JudgementOf reads how the tenant's sweeps stand.
func JudgementOf(ctx context.Context, rdb redis.UniversalClient, tenant string) (j Judgement, err error) {
	store := watch.New(rdb, tenant)
	for name, into := range map[string]any{tasks.StateJudged: &j.Judged, tasks.StateBreaker: &j.Breaker} {
		value, err := store.State(ctx, name)
		if err == nil && value != nil {
			err = json.Unmarshal(value, into)
		}
		if err != nil {
			return Judgement{}, fmt.Errorf("tenant %s: state %s: %w", tenant, name, err)
		}
	}
	return j, nil
}
