package cli

import (
	"cmp"
	"fmt"

	"orgops/tasks"
)

// Needs says in words what the rules want yet before something is done to a domain whose
// token is gone; empty where it is not.
func Needs(rules tasks.Rules, m tasks.Memory) string {
	a := m.Absence
	if a == nil {
		return ""
	}
	grace, checks := cmp.Or(rules.Grace, tasks.DefaultGrace), cmp.Or(rules.AbsentChecks, tasks.DefaultAbsentChecks)
	gone := a.Last.Sub(a.Since)
	text := fmt.Sprintf("%s: %d of %d sweeps, %s of %s", cmp.Or(rules.Action, tasks.ActReport), min(a.Checks, checks), checks, span(min(gone, grace)), span(grace))
	if gone < grace {
		return text + "; not before the first sweep after " + stamp(a.Since.Add(grace))
	}
	return text
}
