package ops

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"orgops/apiclient"
	"orgops/internal/cli"
)

// checkWait bounds a check as a whole: a proof takes eight seconds at the worst, the
// diagnosis six.
const checkWait = 30 * time.Second

// Of checks one runs at a time, and a minute has at most six: each asks some dozen
// servers, and a page can be sent off again and again.
const (
	checkEvery = 10 * time.Second
	checkBurst = 3
)

// Reads of the API by these pages, each of which is a permit of the tenant's that its
// tasks do not get.
const (
	readEvery = 500 * time.Millisecond
	readBurst = 20
)

func newReads() *rate.Limiter { return rate.NewLimiter(rate.Every(readEvery), readBurst) }

// mayRead waits for the turn of one read of the API.
func (s *site) mayRead(ctx context.Context) error {
	if err := s.reads.Wait(ctx); err != nil {
		return fmt.Errorf("these pages ask the API twice a second at the most, and others wait before this one (%w): try again in some seconds", err)
	}
	return nil
}

// checks holds checks by hand to their limit. The zero value allows none: see newChecks.
type checks struct {
	running sync.Mutex
	limit   *rate.Limiter
}

func newChecks() *checks { return &checks{limit: rate.NewLimiter(rate.Every(checkEvery), checkBurst)} }

// begin returns what is to be called when the check has ended, or an error that says
// in words why there is none now.
func (c *checks) begin() (done func(), err error) {
	if !c.running.TryLock() {
		return nil, errors.New("another check is running: one runs at a time; wait for its end, half a minute at most, and ask again")
	}
	if !c.limit.Allow() {
		c.running.Unlock()
		return nil, errors.New("too many checks: these pages make six a minute, since each asks other people's servers; wait ten seconds and ask again")
	}
	return c.running.Unlock, nil
}

// checkNow asks as a worker does that is about to mark the domain verified. Host and
// value are those of the API's record or, where that was not read, of the one that a
// worker has read before: never anybody else's word, since what is found there is shown.
func checkNow(ctx context.Context, t Tenant, served bool, record apiclient.DiscoveryDomain, known cli.Domain) *checkView {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	asked := cli.TXTRecord{Host: record.VerificationHost, TXT: record.VerificationTXT, Domain: record.Domain}
	v := &checkView{Of: "as the API has them now"}
	switch {
	case !served || t.DNS == nil:
		v.Problem = "this worker does not work for the tenant, and has none of its resolvers: look at the pages of a worker that does"
		return v
	case asked.Host == "" && known.Record != nil:
		asked = cli.TXTRecord{Host: known.Record.Host, TXT: known.Record.TXT, Domain: known.Record.Domain}
		v.Of = "as a worker has read them for an open row"
	case asked.Host == "":
		v.Problem = "the record's host and value are not known: the API's record could not be read, and no open row has one"
		return v
	}
	found, err := cli.Check(ctx, t.DNS, asked)
	switch {
	case err != nil:
		v.Problem = "not answered in time: " + printable(err.Error())
	case found.Bad != nil:
		v.Problem = "it was not asked for: " + printable(found.Bad.Error())
	default:
		v.Look = viewOfLook(found.Evidence)
		for _, f := range found.Diagnosis.Findings {
			v.Look.Findings = append(v.Look.Findings, printable(f.Sentence))
		}
		for _, name := range found.Diagnosis.Unanswered {
			v.Look.Unanswered = append(v.Look.Unanswered, cli.Shown(name))
		}
	}
	return v
}
