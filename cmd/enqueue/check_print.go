package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"orgops/dnscheck"
	"orgops/internal/cli"
)

// printCheck writes what was found of one record: a table, or a line of JSON.
func (t *tool) printCheck(c *checkCommand, found checked, first bool) error {
	if t.json {
		return t.printJSON(checkAsJSON(found))
	}
	if !first {
		fmt.Fprintln(t.Stdout)
	}
	w := tabwriter.NewWriter(t.Stdout, 0, 8, 2, ' ', 0)
	if found.Host != "" {
		fmt.Fprintf(w, "TXT record\tat %s, with the value %s\n", cli.Shown(found.Host), cli.Shown(found.TXT))
	}
	if found.bad != nil {
		fmt.Fprintf(w, "verdict\tnot asked for: %s\n", found.bad)
		return w.Flush()
	}
	v := found.verdict
	fmt.Fprintf(w, "verdict\t%s (%s)\n\t%s\n", v.State, v.Reason, v.Sentence())
	if v.Note != "" {
		fmt.Fprintf(w, "name servers\t%s\n", v.Note)
	}
	for _, f := range found.diagnosis.Findings {
		fmt.Fprintf(w, "what to do\t%s\n", f.Sentence)
	}
	for _, name := range found.diagnosis.Unanswered {
		fmt.Fprintf(w, "no answer\tfor %s, where it could stand by mistake\n", cli.Shown(name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printObservations(t.Stdout, c.Resolvers, v)
}

func printObservations(out io.Writer, resolvers []string, v dnscheck.Verdict) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nASKED\tANSWER\tFOUND\tTOOK")
	heard := 0
	for _, o := range v.Observations {
		if !o.Authority {
			heard++
		}
		fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\n", whoSaid(o), o.State, o.Reason, cmp.Or(whatIsThere(o), "-"), o.Took.Round(time.Millisecond/10))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var err error
	switch missing := len(resolvers) - heard; {
	case v.Basis == dnscheck.ByAuthority:
		_, err = fmt.Fprintln(out, "resolvers: not asked: the name servers come first, and a resolver that is asked too early goes on saying no")
	case missing > 0:
		_, err = fmt.Fprintf(out, "and %d of %d resolvers that were not waited for\n", missing, len(resolvers))
	}
	return err
}

// whoSaid names a resolver, or a name server with its address.
func whoSaid(o dnscheck.Observation) string {
	if o.Authority {
		return fmt.Sprintf("name server %s at %s", o.Resolver, cmp.Or(o.Address, "no address"))
	}
	return "resolver " + o.Resolver
}

// whatIsThere is the evidence in one line.
func whatIsThere(o dnscheck.Observation) string {
	const most = 3 // a person reads a line of them; --json has all that were kept
	var parts []string
	if len(o.Aliases) > 0 {
		parts = append(parts, "alias of "+cli.Shown(o.Aliases[len(o.Aliases)-1]))
	}
	var values []string
	for _, value := range o.Values[:min(len(o.Values), most)] {
		values = append(values, quotedValue(value))
	}
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
	return strings.Join(parts, "; ")
}

// quotedValue quotes what a stranger wrote, and caps it.
func quotedValue(value string) string {
	const most = 80
	if len(value) > most {
		return fmt.Sprintf("%+q…", value[:most])
	}
	return fmt.Sprintf("%+q", value)
}

// checkJSON is what --json prints of a record.
type checkJSON struct {
	txtRecord

	Error        string            `json:"error,omitempty"` // why it was not asked for; then there is nothing below
	State        string            `json:"state,omitempty"` // present, absent or unknown
	Reason       string            `json:"reason,omitempty"`
	Sentence     string            `json:"sentence,omitempty"`
	Basis        string            `json:"basis,omitempty"` // who was asked
	Note         string            `json:"note,omitempty"`  // why name servers were not heard
	NegativeTTL  int64             `json:"negative_ttl,omitempty"`
	Observations []observationJSON `json:"observations,omitempty"`
	Findings     []findingJSON     `json:"findings,omitempty"`
	Unanswered   []string          `json:"unanswered,omitempty"` // names of which nothing could be learned
}

type observationJSON struct {
	Asked         string   `json:"asked"`
	Authority     bool     `json:"name_server"`
	Address       string   `json:"address,omitempty"`
	Transport     string   `json:"transport"`
	State         string   `json:"state"`
	Reason        string   `json:"reason"`
	Values        []string `json:"values,omitempty"` // at most 10, of 255 octets
	MoreValues    int      `json:"more_values,omitempty"`
	Aliases       []string `json:"aliases,omitempty"`
	RCode         string   `json:"rcode,omitempty"`
	EDE           string   `json:"extended_error,omitempty"`
	Authenticated bool     `json:"authenticated"`
	Milliseconds  float64  `json:"took_ms"`
	Err           string   `json:"error,omitempty"`
}

type findingJSON struct {
	Mistake  string `json:"mistake"`
	Sentence string `json:"sentence"`
}

func checkAsJSON(found checked) checkJSON {
	j := checkJSON{txtRecord: found.txtRecord}
	if found.bad != nil {
		j.Error = found.bad.Error()
		return j
	}
	v := found.verdict
	j.State, j.Reason, j.Sentence, j.Basis, j.Note = v.State.String(), string(v.Reason), v.Sentence(), string(v.Basis), v.Note
	j.NegativeTTL, j.Unanswered = int64(v.NegativeTTL/time.Second), slices.Clone(found.diagnosis.Unanswered)
	for _, o := range v.Observations {
		j.Observations = append(j.Observations, observationJSON{
			Asked: o.Resolver, Authority: o.Authority, Address: o.Address, Transport: o.Transport, State: o.State.String(), Reason: string(o.Reason),
			Values: o.Values, MoreValues: o.MoreValues, Aliases: o.Aliases, RCode: o.RCode, EDE: o.EDE, Authenticated: o.Authenticated,
			Milliseconds: float64(o.Took.Microseconds()) / 1000, Err: o.Err,
		})
	}
	for _, f := range found.diagnosis.Findings {
		j.Findings = append(j.Findings, findingJSON{string(f.Mistake), f.Sentence})
	}
	return j
}
