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
func (t *tool) printCheck(found checked, first bool) error {
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
	e := found.evidence
	printVerdict(w, e)
	for _, f := range found.diagnosis.Findings {
		fmt.Fprintf(w, "what to do\t%s\n", f.Sentence)
	}
	for _, name := range found.diagnosis.Unanswered {
		fmt.Fprintf(w, "no answer\tfor %s, where it could stand by mistake\n", cli.Shown(name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printSaid(t.Stdout, e)
}

// printVerdict writes what the answers come to, two columns a line.
func printVerdict(w io.Writer, e dnscheck.Evidence) {
	fmt.Fprintf(w, "verdict\t%s (%s)\n", e.State, e.Reason)
	if e.Sentence != "" {
		fmt.Fprintf(w, "\t%s\n", e.Sentence)
	}
	if e.Note != "" {
		fmt.Fprintf(w, "name servers\t%s\n", e.Note)
	}
}

// printSaid writes who was asked, and what each answered, as a table.
func printSaid(out io.Writer, e dnscheck.Evidence) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nASKED\tANSWER\tFOUND\tTOOK")
	heard := 0
	for _, o := range e.Said {
		if !o.Authority {
			heard++
		}
		took := time.Duration(o.Milliseconds * float64(time.Millisecond))
		fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\n", whoSaid(o), o.State, o.Reason, cmp.Or(whatIsThere(o), "-"), took.Round(time.Millisecond/10))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var err error
	switch missing := e.Resolvers - heard; {
	case e.More > 0:
		_, err = fmt.Fprintf(out, "and %d more, which are not kept\n", e.More)
	case e.Basis == string(dnscheck.ByAuthority):
		_, err = fmt.Fprintln(out, "resolvers: not asked: the name servers come first, and a resolver that is asked too early goes on saying no")
	case missing > 0:
		_, err = fmt.Fprintf(out, "and %d of %d resolvers that were not waited for\n", missing, e.Resolvers)
	}
	return err
}

// whoSaid names a resolver, or a name server with its address.
func whoSaid(o dnscheck.ObservationRecord) string {
	switch {
	case !o.Authority:
		return "resolver " + o.Asked
	case o.Asked == "":
		return "a name server"
	}
	return fmt.Sprintf("name server %s at %s", o.Asked, cmp.Or(o.Address, "no address"))
}

// whatIsThere is the evidence in one line.
func whatIsThere(o dnscheck.ObservationRecord) string {
	const most = 3 // a person reads a line of them; --json has all that were kept
	var parts []string
	if len(o.Aliases) > 0 {
		parts = append(parts, "alias of "+cli.Shown(o.Aliases[len(o.Aliases)-1]))
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
		parts = append(parts, fmt.Sprintf("remembered for %s", time.Duration(o.NegativeTTL*float64(time.Second))))
	}
	return strings.Join(parts, "; ")
}

// checkJSON is what --json prints of a record.
type checkJSON struct {
	txtRecord

	Error string `json:"error,omitempty"` // why it was not asked for; then there is nothing below
	*dnscheck.Evidence
	Findings   []findingJSON `json:"findings,omitempty"`
	Unanswered []string      `json:"unanswered,omitempty"` // names of which nothing could be learned
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
	j.Evidence, j.Unanswered = &found.evidence, slices.Clone(found.diagnosis.Unanswered)
	for _, f := range found.diagnosis.Findings {
		j.Findings = append(j.Findings, findingJSON{string(f.Mistake), f.Sentence})
	}
	return j
}
