package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine/kinds"
	"orgops/internal/status"
)

// printCheck writes the result of one record: a table, or a line of JSON.
func (t *tool) printCheck(found status.CheckResult, first bool) error {
	if t.json {
		return t.printJSON(checkAsJSON(found))
	}
	if !first {
		fmt.Fprintln(t.Stdout)
	}
	w := status.NewTable(t.Stdout)
	if found.Host != "" {
		fmt.Fprintf(w, "TXT record\tat %s, with the value %s\n", status.Shown(found.Host), status.Shown(found.TXT))
	}
	if found.Bad != nil {
		fmt.Fprintf(w, "verdict\tnot checked: %s\n", found.Bad)
		return w.Flush()
	}
	e := found.Evidence
	printVerdict(w, kinds.Evidence{Evidence: e})
	for _, f := range found.Diagnosis.Findings {
		fmt.Fprintf(w, "what to do\t%s\n", f.Sentence)
	}
	for _, name := range found.Diagnosis.Unanswered {
		fmt.Fprintf(w, "no answer\tfor %s, where such records often end up by mistake\n", status.Shown(name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printAnswers(t.Stdout, e)
}

// printVerdict writes the verdict, two columns a line.
func printVerdict(w status.Table, e kinds.Evidence) {
	fmt.Fprintf(w, "verdict\t%s (%s)\n", e.State, e.Reason)
	w.Line("", e.Sentence)
	w.Line("note", e.Note)
	if e.ThinProof != nil {
		fmt.Fprintf(w, "accepted\t%s\n", e.ThinProof)
	}
}

// printAnswers writes the answer of each server as a table.
func printAnswers(out io.Writer, e dnscheck.Evidence) error {
	w := status.NewTable(out)
	fmt.Fprintln(w, "\nSERVER\tANSWER\tFOUND\tTOOK")
	for _, o := range e.Said {
		took := time.Duration(o.Milliseconds * float64(time.Millisecond))
		fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\n", status.ServerName(o), o.State, o.Reason, cmp.Or(status.AnswerText(o), "-"), took.Round(time.Millisecond/10))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if silent := status.MissingAnswers(e); silent != "" {
		fmt.Fprintln(out, silent)
	}
	return nil
}

// checkJSON is the output of --json for a record.
type checkJSON struct {
	status.TXTRecord

	Error string `json:"error,omitempty"` // why it was not checked; then there are no members below
	*dnscheck.Evidence
	Findings   []findingJSON `json:"findings,omitempty"`
	Unanswered []string      `json:"unanswered,omitempty"` // names without an answer
}

type findingJSON struct {
	Mistake  dnscheck.Mistake `json:"mistake"`
	Sentence string           `json:"sentence"`
}

func checkAsJSON(found status.CheckResult) checkJSON {
	if found.Bad != nil {
		return checkJSON{TXTRecord: found.TXTRecord, Error: found.Bad.Error()}
	}
	j := checkJSON{TXTRecord: found.TXTRecord, Evidence: &found.Evidence, Unanswered: found.Diagnosis.Unanswered}
	for _, f := range found.Diagnosis.Findings {
		j.Findings = append(j.Findings, findingJSON(f))
	}
	return j
}
