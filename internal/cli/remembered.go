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

	"orgops/dnscheck"
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

// Fact is something known, and its name.
type Fact struct{ Name, Text string }

// Facts are what was seen of the domain, and how it stands.
func (r Remembered) Facts(rules tasks.Rules, tenant Judgement) []Fact {
	var facts []Fact
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, Fact{name, text})
		}
	}
	add("swept", r.swept())
	add("seen last", r.state())
	add("found there", reason(strings.Join(r.Values, ", ")))
	add("present", r.present())
	add("absent", r.absent())
	add("decision", r.Decision(rules))
	if r.Absence != nil && tenant.breaker().ID != "" {
		add("breaker", tenant.BreakerText(r.Tenant))
	}
	add("under way", acting(r.Acting))
	add("acted on", r.taken())
	return facts
}

// Seen writes the facts, two columns a line, and beneath them what has happened to the
// domain.
func (r Remembered) Seen(out io.Writer, rules tasks.Rules, tenant Judgement) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, f := range r.Facts(rules, tenant) {
		fmt.Fprintf(w, "%s\t%s\n", f.Name, f.Text)
	}
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

// Brief is what was seen of the domain last, and how it stands, in a line.
func (r Remembered) Brief(rules tasks.Rules) string {
	text := Shown(r.State)
	if r.Sentence != "" {
		text += ": " + reason(r.Sentence)
	}
	switch decision := r.Decision(rules); {
	case decision != "":
		text += " (" + decision + ")"
	case r.State == dnscheck.Unknown.String():
		text += " (it counts neither as there nor as gone)"
	}
	return text
}

// Decision is in words how an absent domain stands by the rules, the breaker apart;
// empty where it is not absent.
func (r Remembered) Decision(rules tasks.Rules) string {
	if r.Absence == nil {
		return ""
	}
	return decision(rules.Decide(r.Memory), "", rules.ActionOn(r.Memory))
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
	text := fmt.Sprintf("since %s, last confirmed at %s, by %s", stamp(a.Since), stamp(a.Last), sweeps(a.Checks))
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

// acting says what is being done.
func acting(a *tasks.Acting) string {
	if a == nil {
		return ""
	}
	if a.Back {
		return "a request that restores the record, since " + stamp(a.At)
	}
	return fmt.Sprintf("a request that has it %s, since %s", done(a.Action), stamp(a.At))
}

func (r Remembered) taken() string {
	if r.Taken == nil {
		return ""
	}
	text := fmt.Sprintf("%s at %s, until the TXT record at %s is there again", done(r.Taken.Action), stamp(r.Taken.At), Shown(r.Taken.Host))
	if why := r.Withheld(); why != "" {
		text += "; not restored: " + why
	}
	return text
}

// stamp is a time as it is written everywhere.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

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

func (j Judgement) breaker() tasks.Breaker {
	if j.Breaker == nil {
		return tasks.Breaker{}
	}
	return *j.Breaker
}

// BreakerText says how the tenant's breaker stands and, where it holds something back,
// what to do about it.
func (j Judgement) BreakerText(tenant string) string {
	b := j.breaker()
	what := "closed"
	switch {
	case b.Open:
		what = fmt.Sprintf("OPEN since %s, nothing is acted on: %s", stamp(b.At), reason(b.Why))
	case b.ID != "":
		what = "closed, but sweep " + Shown(b.ID) + " has held domains back: " + reason(b.Why)
	case !b.Confirmed.IsZero():
		return "closed; what was absent before " + stamp(b.Confirmed) + " is confirmed to be gone"
	default:
		return what
	}
	return what + "; to confirm that these are gone: enqueue domains sweep --tenant " + tenant + " --confirm " + Shown(b.ID)
}
