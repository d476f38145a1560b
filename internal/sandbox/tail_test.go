package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
)

func TestTail(t *testing.T) {
	log := sandbox.NewTail(3)
	for want := int64(1); want <= 20; want++ {
		if got := log.Next(); got != want {
			t.Fatalf("next is %d, want %d", got, want)
		}
		log.Add(want)
		var last []int64
		for n := max(1, want-2); n <= want; n++ {
			last = append(last, n)
			if got := log.At(n); got == nil || *got != n {
				t.Errorf("after %d: at %d stands %v", want, n, got)
			}
		}
		if diff := cmp.Diff(last, log.Since(0)); diff != "" {
			t.Errorf("after %d: %s", want, diff)
		}
		if diff := cmp.Diff(last[len(last)-1:], log.Since(want-1)); diff != "" {
			t.Errorf("after %d, since %d: %s", want, want-1, diff)
		}
		if log.Since(want) != nil || log.Since(want+9) != nil || log.At(want+1) != nil || log.At(0) != nil {
			t.Errorf("after %d: something from the future or from before", want)
		}
	}
	if log.At(1) != nil {
		t.Error("nothing was ever forgotten")
	}
}
