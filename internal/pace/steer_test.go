package pace_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orgops/internal/pace"
)

// api is a tenant's bucket at its API, which other clients may use too.
type api struct {
	rate, burst float64

	mu      sync.Mutex
	permits float64
	at      time.Time
}

func newAPI(rate, burst float64) *api {
	return &api{rate: rate, burst: burst, permits: burst, at: time.Now()}
}

// request takes a while to arrive, and so does its answer.
func (a *api) request() (status int, header http.Header) {
	time.Sleep(time.Duration(10+rand.IntN(50)) * time.Millisecond)
	status, header = a.take()
	time.Sleep(time.Duration(10+rand.IntN(50)) * time.Millisecond)
	return status, header
}

func (a *api) take() (status int, header http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.permits = min(a.burst, a.permits+a.rate*now.Sub(a.at).Seconds())
	a.at = now
	status = http.StatusTooManyRequests
	if a.permits >= 1 {
		a.permits--
		status = http.StatusOK
	}
	header = http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}
	header.Set("X-Ratelimit-Limit", strconv.Itoa(int(a.burst)))
	header.Set("X-Ratelimit-Remaining", strconv.Itoa(int(a.permits)))
	header.Set("X-Ratelimit-Reset", strconv.FormatInt(now.Add(time.Second).Unix(), 10))
	return status, header
}

// usage counts the results of requests.
type usage struct {
	length time.Duration // of the test

	mu              sync.Mutex
	served, refused int
	late            int // those refused after the first second
	inTime          int // those served before the end of the test
}

func (u *usage) note(status int, since time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if status == http.StatusOK {
		if since <= u.length {
			u.inTime++
		}
		u.served++
		return
	}
	u.refused++
	if since > time.Second {
		u.late++
	}
}

func (u *usage) share() float64 { return float64(u.late) / float64(max(u.served+u.refused, 1)) }

// use has every process of the fleet send as many requests as it gets permits for until the
// end.
func (f *fleet) use(a *api, processes int, length time.Duration, ours *usage, wg *sync.WaitGroup) {
	start := time.Now()
	for range processes {
		l := f.process()
		for range 10 {
			wg.Go(func() {
				for time.Since(start) < length {
					err := l.Wait(f.t.Context(), pace.Request{Operation: op})
					if later, ok := errors.AsType[*pace.NoPermitError](err); ok {
						time.Sleep(later.After)
						continue
					}
					if err != nil {
						f.t.Error(err)
						return
					}
					status, header := a.request()
					ours.note(status, time.Since(start))
					l.Answered(f.t.Context(), op, status, header, 0)
				}
			})
		}
	}
}

// comesAndGoes sends 3 to 5 requests a second in some phases, and none in others.
func (a *api) comesAndGoes(length time.Duration, seed uint64, foreign *usage) {
	r := rand.New(rand.NewPCG(seed, 0))
	start := time.Now()
	for on := false; time.Since(start) < length; on = !on {
		end := time.Now().Add(time.Duration((5 + 10*r.Float64()) * float64(time.Second)))
		if !on {
			time.Sleep(time.Until(end))
			continue
		}
		for perSecond := 3 + 2*r.Float64(); time.Now().Before(end); {
			time.Sleep(time.Duration(r.ExpFloat64() / perSecond * float64(time.Second)))
			status, _ := a.take()
			foreign.note(status, time.Since(start))
		}
	}
}

// TestUseOfTheRate checks that the fleet uses its share of the rate without refusals, and
// leaves the other clients of the bucket theirs.
func TestUseOfTheRate(t *testing.T) {
	tests := []struct {
		name               string
		length             time.Duration
		reserve            float64
		foreign            bool
		used               float64 // at least, of the available permits
		ours, foreignShare float64 // refused at most
	}{
		{"alone", seconds(20, 60), 0, false, 0.97, 0, 0},
		{"alone, with a reserve", seconds(20, 60), 0.2, false, 0.97, 0, 0},
		{"with others", seconds(30, 60), 0, true, 0.85, 0.005, 0.05},
		{"with others, and a reserve", seconds(20, 60), 0.2, true, 0.95, 0, 0.005},
	}
	for i, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 16, Per: time.Second}, Burst: 50, Reserve: tt.reserve})
			a := newAPI(16, 50)
			length := tt.length
			ours, foreign := usage{length: length}, usage{length: length}
			var wg sync.WaitGroup
			f.use(a, 3, length, &ours, &wg)
			if tt.foreign {
				wg.Go(func() { a.comesAndGoes(length, uint64(i), &foreign) })
			}
			wg.Wait()
			there := 16*length.Seconds() - float64(foreign.inTime)
			there = min(there, 16*(1-tt.reserve)*length.Seconds())
			_, burst := f.limit.Effective()
			// Exclude the first burst, which is granted at once, and requests served after the
			// end: they must not hide permits lost meanwhile.
			used := float64(ours.inTime-burst) / there
			t.Logf("used %.1f %% of what there was; refused of ours %d (%.2f %%), of others' %d of %d",
				100*used, ours.late, 100*ours.share(), foreign.refused, foreign.served+foreign.refused)
			if used < tt.used {
				t.Errorf("used %.3f of what there was, want at least %.2f", used, tt.used)
			}
			if ours.share() > tt.ours {
				t.Errorf("refused %d of ours after the first second, want at most %.1f %%", ours.late, 100*tt.ours)
			}
			if foreign.share() > tt.foreignShare {
				t.Errorf("refused %d of others', want at most %.1f %%", foreign.late, 100*tt.foreignShare)
			}
		})
	}
}

// TestHeadersOfAnotherBucketAreIgnored checks that the headers of another bucket, such as an
// endpoint's own or one with a wrong burst, do not affect the known bucket.
func TestHeadersOfAnotherBucketAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 20))
		l := f.process()
		start := time.Now()
		for _, limit := range []string{"5", "200", "", "-1", "no number"} {
			for _, remaining := range []string{"0", "", "-3", "99999999999999999999"} {
				l.Answered(t.Context(), op, http.StatusOK, http.Header{"X-Ratelimit-Limit": {limit},
					"X-Ratelimit-Remaining": {remaining}}, 0)
			}
		}
		for range 15 {
			wait(t, l, op)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("15 of a burst of 20 took %v", took)
		}
		l.Answered(t.Context(), op, http.StatusOK,
			http.Header{"X-Ratelimit-Limit": {"20"}, "X-Ratelimit-Remaining": {"0"}}, 0)
		wait(t, f.process(), op) // another process has learned nothing yet
		if took := time.Since(start); took != 0 {
			t.Errorf("the 16th took %v", took)
		}
		wait(t, l, op)
		// The bucket is at 0 or slightly above, and never grants two permits.
		if took := time.Since(start).Seconds(); math.Abs(took-0.2) > 0.06 {
			t.Errorf("after an empty bucket was told of the next came after %.3f s, want 0.2", took)
		}
	})
}
