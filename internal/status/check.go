package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/evidence"
	"orgops/internal/provider"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
)

// CheckResult is the result of a check of a record.
type CheckResult struct {
	Organization string `json:"organization_id,omitempty"`
	ID           string `json:"discovery_domain_id,omitempty"`
	Host         string `json:"verification_host"`
	TXT          string `json:"verification_txt"`
	// Error is why the record cannot be checked; "": it was.
	Error     string `json:"error,omitempty"`
	*Findings        // nil: it was not checked
}

// Check checks the record of a domain, as a worker does right before it sets the domain to
// verified. Of the domain's other members only the name counts, by which mistakes are found; it may
// be empty. The result of a record that cannot be checked has its Error set; the error is the
// context's.
func Check(ctx context.Context, checker *dnscheck.Checker, d discovery.Domain) (CheckResult, error) {
	found := CheckResult{Organization: d.OrganizationID, ID: d.ID, Host: d.Host, TXT: d.TXT}
	verdict, err := checker.Prove(ctx, d.Host, d.TXT)
	if question, ok := errors.AsType[*dnscheck.QuestionError](err); ok {
		found.Error = question.Error()
		return found, nil
	}
	if err != nil {
		return found, err
	}
	found.Findings = &Findings{Evidence: evidence.Evidence{Evidence: verdict.Evidence()}}
	found.At = time.Now().UTC().Truncate(time.Second)
	if name, target, out := verdict.AliasOut(); out && verdict.State == dnscheck.Present {
		warning := fmt.Sprintf(
			"the alias %s leads out of the domain, to %s: the owner of that name can prove the domain; --refuse-aliases refuses that", Shown(name), Shown(target))
		found.Note = Joined(found.Note, warning)
	}
	if found.Diagnosis, err = checker.Diagnose(ctx, d.Host, d.Name, d.TXT, verdict); err != nil {
		return found, err
	}
	if verdict.State != dnscheck.Absent {
		return found, nil
	}
	zone := verdict.HostZone
	if zone.Name == "" && verdict.Basis == dnscheck.ByResolvers {
		zone, err = checker.ZoneOf(ctx, verdict.Host)
	}
	found.Publish = PublishIn(verdict.Host, zone)
	return found, err
}

// Publish describes how a record is entered where its zone is edited.
type Publish struct {
	Zone     string `json:"zone"`               // that holds the host
	Name     string `json:"name"`               // of the record, relative to the zone; "@": the zone itself
	Provider string `json:"provider,omitempty"` // of the zone's name servers; empty: not known
	Hint     string `json:"hint,omitempty"`     // how the provider's panel wants it
	Help     string `json:"help,omitempty"`     // the URL of the provider's own description
}

// PublishIn returns how the host's record is entered in the zone; nil: there is none.
func PublishIn(host string, zone dnscheck.Zone) *Publish {
	if zone.Name == "" {
		return nil
	}
	p := &Publish{Zone: zone.Name, Name: provider.Name(host, zone.Name)}
	if known, ok := provider.Of(zone.Servers); ok {
		p.Provider = known.Name
		p.Hint = known.Hint
		p.Help = known.Source
	}
	return p
}

// Findings are the findings of a check or a proof.
type Findings struct {
	evidence.Evidence
	Publish *Publish  `json:"publish,omitempty"` // of a check by hand, if the record is missing
	Next    time.Time `json:"-"`                 // when the record is checked next; zero: not known
}

// IsProof reports whether a record was proven. A revocation compares the record too, and finds that
// its token is gone.
func (f Findings) IsProof() bool { return f.Compared != nil && f.State != dnscheck.Absent.String() }

// When returns when the record was checked or proven.
func (f Findings) When() Fact {
	if f.IsProof() {
		return Fact{Name: "proven at", Text: stamp.UTC(f.At)}
	}
	return Fact{Name: "checked at", Text: stamp.UTC(f.At)}
}

// Explanation returns the mistake in the record, and the remedy as far as there is one.
func (f Findings) Explanation() string {
	for _, one := range f.Findings {
		return one.Sentence
	}
	return f.Sentence
}

// fix returns the remedy for an open row by its last check. There is none after a check without a
// clear answer.
func (f *Findings) fix() remedy.Fix {
	const byItself = ": it is checked again by itself"
	switch {
	case f == nil || f.State != dnscheck.Absent.String():
		return remedy.Fix{}
	case len(f.Findings) > 0:
		return remedy.To("have the customer correct the record" + byItself)
	}
	return remedy.To("have the customer compare the published record with host and value" + byItself)
}

// Facts describes the findings, apart from the answers: the verdict first. The one after it may
// have no name: it explains the verdict.
func (f Findings) Facts() []Fact {
	verdict := Fact{Name: "verdict", Text: Shown(fmt.Sprintf("%s (%s)", f.State, f.Reason)), Tone: "wait"}
	switch f.State {
	case dnscheck.Present.String():
		verdict.Tone = "good"
	case dnscheck.Absent.String():
		verdict.Tone = "bad"
	}
	all := []Fact{verdict, {Text: f.Sentence}, {Name: "note", Text: f.Note}}
	for _, one := range f.Findings {
		all = append(all, Fact{Name: "what to do", Text: one.Sentence})
	}
	if p := f.Publish; p != nil {
		all = append(all, Fact{Name: "name to enter", Text: fmt.Sprintf("%s in the zone %s", Shown(p.Name), Shown(p.Zone))})
		if p.Provider != "" {
			all = append(all, Fact{Name: "at " + p.Provider, Text: p.Hint})
		}
	}
	all = append(all, Fact{Name: "resolvers", Text: f.ResolversSee})
	for _, name := range f.Unanswered {
		all = append(all, Fact{Name: "no answer", Text: "for " + Shown(name) + ", where such records often end up by mistake"})
	}
	return facts(append(all, Fact{Name: "next check", Text: stamp.UTC(f.Next)})...)
}

// Took returns the duration of an answer.
func Took(o report.Observation) time.Duration {
	return time.Duration(o.Milliseconds * float64(time.Millisecond)).Round(time.Millisecond / 10)
}

// ServerName names a resolver, with its operator and perspective where its name does not have
// them, or a name server with its address.
func ServerName(o report.Observation) string {
	switch {
	case !o.Authority:
		return "resolver " + o.Asked + whose(o.Asked, o.Operator, o.Perspective)
	case o.Asked == "":
		return "a name server"
	}
	return fmt.Sprintf("name server %s at %s", o.Asked, cmp.Or(o.Address, "no address"))
}

// whose returns " (OPERATOR, PERSPECTIVE)" of a resolver, without those that its name has and
// without the default perspective.
func whose(name, operator, perspective string) string {
	var parts []string
	if !strings.Contains(name, operator) {
		parts = append(parts, operator)
	}
	if perspective != "" && perspective != dnscheck.DefaultPerspective && !strings.HasSuffix(name, "@"+perspective) {
		parts = append(parts, perspective)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// AnswerText returns an answer in one line: aliases, values, codes.
func AnswerText(o report.Observation) string {
	const most = 3 // fit in a line; --json has all stored values
	var parts []string
	if len(o.Aliases) > 0 {
		parts = append(parts, "alias of "+Shown(o.Aliases[len(o.Aliases)-1]))
	}
	values := o.Values[:min(len(o.Values), most)]
	if len(values) > 0 {
		parts = append(parts, strings.Join(values, ", "))
	}
	if more := len(o.Values) - len(values) + o.MoreValues; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	for _, text := range []string{o.RCode, o.EDE, o.Err} {
		if text != "" && text != "NOERROR" {
			parts = append(parts, text)
		}
	}
	if o.NegativeTTL > 0 {
		parts = append(parts, fmt.Sprintf("cached for %s", time.Duration(o.NegativeTTL*float64(time.Second))))
	}
	return strings.Join(parts, "; ")
}

// MissingAnswers says which answers the evidence does not contain, and why; "": none is
// missing.
func MissingAnswers(e report.Evidence) string {
	answered := 0
	for _, o := range e.Said {
		if !o.Authority {
			answered++
		}
	}
	switch missing := e.Resolvers - answered; {
	case e.Basis == string(dnscheck.ByAuthority):
		return "resolvers: not queried: the name servers come first, since a resolver that is queried too early caches the absence"
	case missing > 0:
		return fmt.Sprintf("and %d of %d resolvers that were not waited for", missing, e.Resolvers)
	}
	return ""
}
