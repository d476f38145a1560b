package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine/kinds"
	"orgops/internal/status"
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

// mayRead waits for the turn of one read of the API.
func (s *site) mayRead(ctx context.Context) error {
	if err := s.reads.Wait(ctx); err != nil {
		return fmt.Errorf("too many requests to the API: these pages send at most two a second (%w); try again in a few seconds", err)
	}
	return nil
}

// beginCheck returns what is to be called when a check by hand has ended, or an error that
// says in words why there is none now.
func (s *site) beginCheck() (done func(), err error) {
	if !s.checking.TryLock() {
		return nil, errors.New("another check is running, and only one runs at a time: try again in half a minute")
	}
	if !s.checks.Allow() {
		s.checking.Unlock()
		return nil, errors.New("too many checks: these pages run at most six a minute, since each queries servers of other operators; try again in ten seconds")
	}
	return s.checking.Unlock, nil
}

// checkNow asks as a worker does that is about to mark the domain verified. Host and
// value are those of the API's record or, where that was not read, of the one that a
// worker has read before: never anybody else's word, since what is found there is shown.
func checkNow(ctx context.Context, t Tenant, served bool, record apiclient.DiscoveryDomain, known status.Domain) *checkView {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	asked := status.TXTRecord{Host: record.VerificationHost, TXT: record.VerificationTXT, Domain: record.Domain}
	v := &checkView{Of: "the API's current record"}
	switch {
	case !served || t.DNS == nil:
		v.Problem = "this worker does not serve the tenant and has none of its resolvers: open the pages of a worker that does"
		return v
	case asked.Host == "" && known.Record != nil:
		asked = status.TXTRecord{Host: known.Record.Host, TXT: known.Record.TXT, Domain: known.Record.Domain}
		v.Of = "the record that a worker read for an open row"
	case asked.Host == "":
		v.Problem = "host and value of the record are unknown: the API's record could not be read, and no open row has a copy"
		return v
	}
	found, err := status.Check(ctx, t.DNS, asked)
	switch {
	case err != nil:
		v.Problem = "the check did not finish in time: " + printable(err.Error())
	case found.Bad != nil:
		v.Problem = "the record was not checked: " + printable(found.Bad.Error())
	default:
		v.LastCheck = &verdictView{Evidence: kinds.Evidence{Evidence: found.Evidence}, Diagnosis: found.Diagnosis}
	}
	return v
}
