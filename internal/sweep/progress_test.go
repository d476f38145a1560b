package sweep_test

import (
	"testing"

	"orgops/internal/sweep"
)

func TestOrder(t *testing.T) {
	for name, o := range map[string]sweep.Order{
		"no tick": {}, "negative tick": {Tick: -1}, "spread backwards": {Tick: 10, SpreadUntil: 9},
	} {
		if _, err := o.Progress(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	got, err := sweep.Order{Organization: "org_1", Tick: 10, SpreadUntil: 20, Pending: true}.Progress()
	if want := (sweep.Progress{Organization: "org_1", Tick: 10, SpreadUntil: 20, Pending: true}); got != want ||
		err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
