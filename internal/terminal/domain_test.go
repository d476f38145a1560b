package terminal_test

import (
	"strings"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/status"
	"orgops/internal/terminal"
)

// TestDomainSaysWhatToDo checks that a row with a remedy has it in a line of its own, and that one
// without has none.
func TestDomainSaysWhatToDo(t *testing.T) {
	refused := status.DomainRow{Run: "a", Kind: "domain:verify", Row: status.Row{Outcome: ledger.Refused},
		Fix: remedy.To("correct the record")}
	done := status.DomainRow{Run: "b", Kind: "domain:verify", Row: status.Row{Outcome: ledger.Done}}
	var text strings.Builder
	if err := terminal.WriteDomain(&text, status.Domain{Rows: []status.DomainRow{refused, done}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "\nwhat to do: correct the record\n") ||
		strings.Count(text.String(), "what to do") != 1 {
		t.Errorf("want one remedy in\n%s", text.String())
	}
}
