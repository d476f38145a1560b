package main

import (
	"fmt"

	"orgops/dnscheck"
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
	heading := status.Fact{Name: "TXT record"}
	if found.Host != "" {
		heading.Text = fmt.Sprintf("at %s, with the value %s", status.Shown(found.Host), status.Shown(found.TXT))
	}
	if found.Bad == nil {
		return found.Write(t.Stdout, heading)
	}
	w := status.NewTable(t.Stdout)
	w.Line(heading.Name, heading.Text)
	w.Line("verdict", "not checked: "+found.Bad.Error())
	return w.Flush()
}

// checkJSON is the output of --json for a record.
type checkJSON struct {
	status.TXTRecord

	Error string `json:"error,omitempty"` // why it was not checked; then there are no members below
	*dnscheck.Evidence
	dnscheck.Diagnosis
}

func checkAsJSON(found status.CheckResult) checkJSON {
	if found.Bad != nil {
		return checkJSON{TXTRecord: found.TXTRecord, Error: found.Bad.Error()}
	}
	return checkJSON{TXTRecord: found.TXTRecord, Evidence: &found.Evidence.Evidence, Diagnosis: found.Diagnosis}
}
