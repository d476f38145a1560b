package releases_test

import (
	"slices"
	"testing"

	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/tasks"
	"orgops/tasks/releases"
)

// TestKinds checks that kinds whose every row writes have an operation that writes, and a
// cost. Rows of sweeps write rarely, and their checks cost nothing, as those of domain:verify.
func TestKinds(t *testing.T) {
	released := releases.Kinds(7)
	for _, kind := range tasks.All() {
		k, ok := released[ledger.Kind(kind.Name)]
		if !ok {
			t.Errorf("%s is described and not released: add it to Kinds", kind.Name)
			continue
		}
		writes := k.Cost.Ready > 0 && slices.ContainsFunc(k.Operations.Ready, schema.Writes)
		freeCheck := len(k.Operations.Check) == 0 && k.Cost.Check == 0
		switch kind.Name {
		case tasks.TypeRecheck:
			ok = ok && writes && freeCheck && len(k.Operations.First) == 0 && k.Cost.First == 0
		case tasks.TypeRevoke:
			ok = ok && k.Cost.First > 0 && !slices.ContainsFunc(k.Operations.First, schema.Writes)
		case tasks.TypeRead:
			ok = ok && !writes && freeCheck && k.Cost.First > 0
		case tasks.TypeVerify:
			ok = ok && writes && freeCheck && k.Cost.First > 0
		default:
			ok = ok && writes && k.Cost.First > 0
		}
		if !ok || kind.Together > 0 != (k.Batch == 7) || (k.Group != nil) != (kind.Together > 0) {
			t.Errorf("%s: %+v", kind.Name, k)
		}
	}
	scans := 0
	for kind, k := range released {
		if _, described := tasks.KindOf(string(kind)); described {
			continue
		}
		scans++
		isScan := slices.ContainsFunc([]string{tasks.TypeVerify, tasks.TypeRecheck, tasks.TypeRemove},
			func(of string) bool { return kind == ledger.ScanOf(ledger.Kind(of)) })
		if k.Cost.First == 0 || k.Cost.Check == 0 || k.Batch > 1 || !isScan {
			t.Errorf("%s is released, and neither a scan nor described: add it to kinds of tasks/kinds.go; %+v", kind, k)
		}
	}
	if len(released) != len(tasks.All())+scans || scans != 3 {
		t.Errorf("%d kinds are released, and %d described", len(released), len(tasks.All()))
	}
}
