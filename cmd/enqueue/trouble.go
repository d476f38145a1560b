package main

import (
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/runs"
)

// printTrouble writes a line for each run that needs an operator.
func (t *tool) printTrouble(all []runs.Run) {
	now := time.Now()
	for _, r := range all {
		if lost := cli.Lost(r); lost != "" {
			fmt.Fprintf(t.Stdout, "run %s: lost: %s\n", r.ID, lost)
		}
		if walk := cli.WalkTrouble(r); walk != "" {
			fmt.Fprintf(t.Stdout, "run %s: scan: %s\n", r.ID, walk)
		}
		if silent := cli.Silent(r, now); silent != "" {
			fmt.Fprintf(t.Stdout, "run %s: producer: %s\n", r.ID, silent)
		}
	}
}
