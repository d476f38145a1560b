package status

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/tasks/handlers"
)

// SweptDomain is a discovery domain with the state that sweeps have stored.
type SweptDomain struct {
	ID string
	sweep.DomainState
	Tenant  string
	Rules   sweep.Rules
	Summary sweep.Summary // of the last complete sweep; zero: there was none
}

// SweptDomainOf reads the state of the tenant's domain with that id; ok is false if none is
// stored.
func SweptDomainOf(ctx context.Context, rdb redis.UniversalClient, name, id string) (d SweptDomain, ok bool, err error) {
	value, err := sweep.NewStore(rdb, name).Domain(ctx, id)
	if err != nil || value == nil {
		return SweptDomain{}, false, err
	}
	state, err := sweep.ReadState(value)
	if err != nil {
		return SweptDomain{}, false, fmt.Errorf("discovery domain %s of tenant %s: %w", id, name, err)
	}
	settings, _, err := tenant.ReadAnnounced(ctx, rdb, name)
	if err != nil {
		return SweptDomain{}, false, err
	}
	d = SweptDomain{ID: id, DomainState: state, Tenant: name, Rules: settings.Rules()}
	last, err := SummaryOf(ctx, rdb, name)
	if last != nil {
		d.Summary = *last
	}
	return d, err == nil, err
}

// Facts returns the domain's state and the decision on it.
func (d SweptDomain) Facts() []Fact {
	return facts(
		Fact{"swept", d.swept()}, Fact{"seen last", d.state()}, Fact{"found there", reason(strings.Join(d.Values, ", "))},
		Fact{"present", d.present()}, Fact{"absent", d.absent()}, Fact{"decision", d.Decision()},
		Fact{"revoked", d.revoked()},
	)
}

// Write writes the facts, two columns a line, then the domain's history, and the findings that
// led to each change of its record.
func (d SweptDomain) Write(out io.Writer) error {
	w := NewTable(out)
	for _, f := range d.Facts() {
		w.Line(f.Name, f.Text)
	}
	if err := w.Flush(); err != nil || len(d.History) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nWHEN\tWHAT\tWHY")
	for _, e := range d.History {
		fmt.Fprintf(w, "%s\t%s\t%s\n", Stamp(e.At), Shown(e.What), reason(e.Why))
	}
	err := w.Flush()
	for _, e := range d.History {
		if e.Verdict == nil || err != nil {
			continue
		}
		verdict, unreadable := handlers.ReadEvidence(e.Verdict)
		if unreadable != nil {
			_, err = fmt.Fprintf(out, "\n%s  %s\nverdict  not readable: %v\n", Shown(e.What), Stamp(e.At), unreadable)
			continue
		}
		fmt.Fprintln(out)
		err = Findings{Evidence: verdict}.Write(out, Fact{Shown(e.What), Stamp(e.At)})
	}
	return err
}

func (d SweptDomain) swept() string {
	if d.Sweeps <= 1 {
		return "once, by the sweep of " + Stamp(TickAt(d.Tick))
	}
	return fmt.Sprintf("%d times, last by the sweep of %s", d.Sweeps, Stamp(TickAt(d.Tick)))
}

// Brief returns the last sweep's result for the domain and the decision on it, in a line.
func (d SweptDomain) Brief() string {
	text := Shown(d.State)
	if d.Sentence != "" {
		text += ": " + reason(d.Sentence)
	}
	switch decision := d.Decision(); {
	case decision != "":
		text += " (" + decision + ")"
	case d.State == dnscheck.Unknown.String():
		text += " (it counts neither as there nor as gone)"
	}
	return text
}

// Decision returns whether an absent domain is lost, and whether it may be revoked; "": it is not
// absent.
func (d SweptDomain) Decision() string {
	if d.Absence == nil {
		return ""
	}
	unfit := d.Rules.Unfit(d.DomainState, d.Summary.Tick)
	switch {
	case d.Absence.Lost.IsZero():
		return "at risk: " + reason(d.Rules.TooShort(d.DomainState))
	case unfit != "":
		return "lost since " + Stamp(d.Absence.Lost) + "; not to be revoked: " + reason(unfit)
	}
	return fmt.Sprintf("lost since %s; to revoke lost domains: enqueue domains revoke --tenant %s", Stamp(d.Absence.Lost), d.Tenant)
}

func (d SweptDomain) state() string {
	text := Shown(d.State)
	if d.Reason != "" {
		text += " (" + Shown(d.Reason) + ")"
	}
	text += ", at " + Stamp(d.At)
	if d.Sentence != "" {
		text += ": " + reason(d.Sentence)
	}
	return text
}

func (d SweptDomain) present() string {
	if d.LastPresent.IsZero() {
		return "never seen by a sweep"
	}
	return fmt.Sprintf("from %s to %s", Stamp(d.FirstPresent), Stamp(d.LastPresent))
}

func (d SweptDomain) absent() string {
	a := d.Absence
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("since %s, last confirmed at %s, by %s", Stamp(a.Since), Stamp(a.Last), count(int64(a.Checks), "sweep"))
	if a.Operator != "" {
		text += "; name servers of " + Shown(a.Operator)
	}
	return text
}

func (d SweptDomain) revoked() string {
	r := d.Revoked
	switch {
	case r == nil:
		return ""
	case r.DoneAt.IsZero():
		return fmt.Sprintf("perhaps (%s), by a request of run %s at %s that has had no answer", r.Set, Shown(r.Run), Stamp(r.At))
	}
	return fmt.Sprintf("%s at %s by run %s, until a sweep finds the TXT record again; to restore it at once: enqueue domains revoke --undo %s", r.Set, Stamp(r.DoneAt), Shown(r.Run), Shown(r.Run))
}
