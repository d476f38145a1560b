package handlers

// A PATCH whose answer was lost may land until twice the request timeout later, and a read
// may show a record for some minutes as it was before a change. So an execution that finds
// an intent reads the record until it shows the result, and sends no other PATCH before the
// former one cannot land any more.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/internal/untrusted"
)

// Domains is the part of the API's client that changes of discovery domains need.
type Domains interface {
	DiscoveryDomain(ctx context.Context, organization, domain string) (schema.DiscoveryDomain, error)
	UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
		u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error)
}

// DomainList is the part of the API's client that finds domains by their names.
type DomainList interface {
	DiscoveryDomainsPage(ctx context.Context, organization,
		from string) (page []apiclient.Listed[schema.DiscoveryDomain], next string, err error)
}

const (
	// defaultSettled is how long a read may show a record as it was before a change: reads of
	// discovery domains are eventually consistent.
	defaultSettled = 5 * time.Minute
	// freshFor is how old the record may be that a PATCH is proven against. A flag that
	// another client changes within that time is overwritten.
	freshFor = time.Minute
	// secondRead is when a young row is executed again whose record seems not to exist, or
	// to be another: mostly its ids are wrong, and each read costs a request.
	secondRead = 30 * time.Second
)

// errStale says that a record was read too long before the permit of its PATCH, which was not sent.
var errStale = errors.New("the record was read too long before the permit")

// unread is why a row stays open whose PATCH a read may not show yet.
const unread = "a PATCH had no answer; the record is read until it shows its result"

// change is one execution of a row that changes a discovery domain.
type change struct {
	x       *engine.Execution
	row     *engine.Row
	api     func(apiclient.Binding) Domains
	timeout time.Duration // of a request
	settled time.Duration // see defaultSettled

	organization, domain string // ids

	readAt time.Time // when the record was requested, in Redis' time
}

// withClass returns a binding whose requests have a class. Those of others finish rows.
func withClass(b apiclient.Binding, c pace.Class) apiclient.Binding {
	b.Class = int(c)
	return b
}

// behind is added to waits: one that ended by a clock a little behind would cost another request.
const behind = 200 * time.Millisecond

// inFlight returns for how long a PATCH that was sent at that time may still land; 0: it cannot
// any more.
func (c *change) inFlight(at time.Time) time.Duration {
	if left := at.Add(2 * c.timeout).Sub(c.x.Now()); left > 0 {
		return left + behind
	}
	return 0
}

// readAgain returns when to read a record again that may be older than a PATCH that was
// sent at that time; 0 once a read shows its result. Each read costs a request.
func (c *change) readAgain(at time.Time) time.Duration {
	age := max(c.x.Now().Sub(at), 0)
	left := c.settled - age
	if left <= 0 {
		return 0
	}
	return min(left+behind, max(age, time.Second), time.Minute)
}

// isFresh reports whether a record that was requested at that time may be proven against.
func (c *change) isFresh(at time.Time) bool {
	age := c.x.Now().Sub(at)
	return age >= 0 && age <= freshFor
}

// read reads the record, by a client that is bound to the execution.
func (c *change) read(ctx context.Context, b apiclient.Binding) (discovery.Domain, error) {
	record, err := c.api(b).DiscoveryDomain(ctx, c.organization, c.domain)
	c.readAt = c.x.Requested()
	d := discovery.Of(c.organization, record)
	if err == nil {
		learnRead(c.x, c.row, d)
	}
	return d, err
}

// readYoung is read for a row that has sent no PATCH.
func (c *change) readYoung(ctx context.Context, b apiclient.Binding) (discovery.Domain, error) {
	d, err := c.read(ctx, b)
	if isNotFound(err) {
		err = c.readTwice(err)
	}
	return d, err
}

// isYoung reports whether a read of the row's record may be behind, and none was made since.
func (c *change) isYoung() bool {
	now := c.x.Now()
	if now.Sub(c.x.Submitted) >= c.settled {
		return false
	}
	first := c.row.FirstBegun
	return first.IsZero() || now.Sub(first) < secondRead
}

// readTwice returns the reason for which a row is refused. If the row is young it stays open
// for that reason until a second read, since the first one may be behind. The reason is last: it
// may be cut.
func (c *change) readTwice(reason error) error {
	if !c.isYoung() {
		return reason
	}
	return engine.RetryAfter(fmt.Errorf("read once more half a minute later: %w", reason), secondRead)
}

// leaveAlone ends a row that undoes a change which others have changed since.
func (c *change) leaveAlone(why string) *engine.Consequence {
	if c.isYoung() {
		return engine.Fail(c.readTwice(errors.New(why)))
	}
	return engine.Settle(unchanged(why))
}

// notice calls f with the record that was read, or that does not exist. It returns the error of the
// read, or else that of f.
func (c *change) notice(ctx context.Context, d discovery.Domain, read error,
	f func(context.Context, sweep.RecordRead) error) error {
	if (read != nil && !isNotFound(read)) || c.domain == "" {
		return read
	}
	r := sweep.RecordRead{Domain: d, At: c.x.Now(), Gone: read != nil}
	r.OrganizationID = c.organization
	r.ID = c.domain
	if err := f(ctx, r); err != nil && read == nil {
		return err
	}
	return read
}

// send sends a PATCH. Right before it, with the permit, store stores its intent. If the
// request surely had no effect, undo replaces the intent, and returns the reason.
func (c *change) send(ctx context.Context, u schema.DiscoveryDomainUpdate, store apiclient.Intent,
	undo func(ctx context.Context, reason error) error,
) (discovery.Domain, error) {
	stored := false
	record, err := c.api(c.x.Fenced()).UpdateDiscoveryDomain(ctx, c.organization, c.domain, u,
		func(ctx context.Context) error {
			err := store(ctx)
			stored = stored || err == nil
			return err
		})
	answer := discovery.Of(c.organization, record)
	if errors.Is(err, errStale) {
		return answer, errStale
	}
	if own, ok := errors.AsType[*engine.RowError](err); ok {
		err = own // of store: the request, which was not sent, is no part of its reason
	}
	if err != nil && stored && engine.NoEffect(err) {
		err = undo(ctx, err)
	}
	if err == nil {
		learnRead(c.x, c.row, answer)
	}
	return answer, err
}

// notSent restores the row's former intent, if any, since this execution's PATCH had no
// effect. It returns the reason.
func (c *change) notSent(ctx context.Context, reason error) error {
	if c.row.Intent == nil {
		return withdraw(ctx, c.x, c.row, reason)
	}
	return both(reason, c.x.Amend(ctx, c.row, c.row.Intent.Value))
}

// carriedOut compares the answer, or a record, with the request.
func carriedOut(sent schema.DiscoveryDomainUpdate, got discovery.Domain) error {
	if sent.Status != nil && got.Status != *sent.Status {
		return engine.Retry(fmt.Errorf("the API answered the PATCH with status %s, sent was %q",
			untrusted.Value(got.Status), string(*sent.Status)))
	}
	if flag := sent.UseForOrganizationDiscovery; differ(flag, got.Flag) {
		return engine.Retry(fmt.Errorf("the API answered the PATCH with use_for_organization_discovery %t, sent was %t",
			*got.Flag, *flag))
	}
	return nil
}

// differ reports whether two flags are given and differ.
func differ(sent, got *bool) bool { return sent != nil && got != nil && *sent != *got }
