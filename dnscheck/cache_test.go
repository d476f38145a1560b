package dnscheck_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"orgops/dnscheck"
)

func TestCacheIsBounded(t *testing.T) {
	m := dnscheck.NewCache()
	for i := range dnscheck.MaxCached + 10 {
		m.Put(fmt.Sprint(i), i, time.Hour)
	}
	if got := m.Len(); got != dnscheck.MaxCached {
		t.Errorf("%d entries", got)
	}
	last := fmt.Sprint(dnscheck.MaxCached + 9)
	if v, ok := m.Get(last); !ok || v != dnscheck.MaxCached+9 {
		t.Errorf("%d, %t", v, ok)
	}
	for range 3 {
		m.Put(last, 11, time.Hour) // replaces the entry
	}
	if got := m.Len(); got != dnscheck.MaxCached {
		t.Errorf("%d entries", got)
	}
}

func TestCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dnscheck.NewCache()
		tests := []struct {
			name      string
			ttl, kept time.Duration
		}{
			{"a TTL of its own", time.Minute, time.Minute},
			{"no TTL", 0, 15 * time.Second},
			{"a TTL of days", 48 * time.Hour, 15 * time.Minute},
		}
		for _, test := range tests {
			m.Put(test.name, 1, test.ttl)
			time.Sleep(test.kept - time.Nanosecond)
			if _, ok := m.Get(test.name); !ok {
				t.Errorf("%s: forgotten before %s", test.name, test.kept)
			}
			time.Sleep(time.Nanosecond)
			if _, ok := m.Get(test.name); ok {
				t.Errorf("%s: remembered after %s", test.name, test.kept)
			}
		}
		if m.Len() != 0 {
			t.Errorf("%d entries are left", m.Len())
		}
		m.Put("a", 1, time.Minute)
		m.Forget("a")
		m.Forget("a")
		if m.Len() != 0 {
			t.Errorf("%d entries are left", m.Len())
		}
	})
}

func TestCacheLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dnscheck.NewCache()
		var looks atomic.Int32
		look := func() (int, time.Duration, error) {
			looks.Add(1)
			time.Sleep(time.Second)
			m.Put("other", 2, time.Minute) // the cache is not locked during a load
			return 1, time.Minute, nil
		}
		var finding sync.WaitGroup
		for range 100 {
			finding.Go(func() {
				if v, err := m.Load(t.Context(), "a", look); v != 1 || err != nil {
					t.Errorf("%d, %v", v, err)
				}
			})
		}
		finding.Wait()
		if got := looks.Load(); got != 1 {
			t.Errorf("%d looks", got)
		}
	})
}

func TestCacheStoresNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dnscheck.NewCache()
		broken := errors.New("broken")
		var finding sync.WaitGroup
		for range 3 { // one caller loads, the others receive its error
			finding.Go(func() {
				_, err := m.Load(t.Context(), "a", func() (int, time.Duration, error) {
					time.Sleep(time.Second)
					return 0, time.Minute, broken
				})
				if !errors.Is(err, broken) {
					t.Errorf("error %v", err)
				}
			})
		}
		finding.Wait()
		if v, err := m.Load(t.Context(), "a", func() (int, time.Duration, error) { return 1, time.Minute, nil }); v != 1 ||
			err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}

func TestCacheLoadEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dnscheck.NewCache()
		var looking sync.WaitGroup
		looking.Go(func() {
			_, _ = m.Load(t.Context(), "a", func() (int, time.Duration, error) {
				time.Sleep(time.Hour)
				return 1, time.Minute, nil
			})
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := m.Load(ctx, "a", nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
		looking.Wait()
	})
}
