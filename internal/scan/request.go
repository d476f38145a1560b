package scan

import (
	"context"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// Request is the search of a scan: [Pending] or [Swept].
type Request interface {
	// row returns the row of a record that was listed at a time, in Redis' time; nil: it is
	// none.
	row(ctx context.Context, p sweep.Progress, organization string, l listed, at time.Time) (*ledger.FoundRow, error)
	class() Class
}

// listed is a record of an organization's list.
type listed = apiclient.Listed[apiclient.DiscoveryDomain]

// Class is the class of a scan's requests, by which they are paced.
type Class int

// The classes.
const (
	// NoScan is the class of requests that belong to no scan.
	NoScan Class = iota
	// ForRows is for requests that lead to checks of submitted work.
	ForRows
	// ForSweep is for requests of a sweep, for which no caller waits.
	ForSweep
)

type classKey struct{}

// ClassOf returns the class of a request of the context.
func ClassOf(ctx context.Context) Class {
	c, _ := ctx.Value(classKey{}).(Class)
	return c
}

// maxToken and maxDomain bound verification_txt and domain of a record, in bytes. A TXT
// record of that many bytes does not fit a DNS message (RFC 1035 3.2.1).
const (
	maxToken  = 4096
	maxDomain = 255
)

// outsideSpec returns why a record of an organization's list is outside the specification;
// nil if it is not.
func outsideSpec(organization string, l listed) error {
	err := l.Err
	if err == nil {
		err = apiclient.CheckID("discovery_domain_id", l.Record.ID)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("organization %s: %w", organization, err)
}

// provable returns why no check of the record can prove its domain; nil: one may.
func provable(d apiclient.DiscoveryDomain) error {
	if _, err := dnscheck.CheckDomain(d.Domain); err != nil {
		return fmt.Errorf("the record's domain cannot be proven: %w", err)
	}
	if !dnscheck.Within(d.VerificationHost, d.Domain) {
		return fmt.Errorf("the record's verification host %.260q is not below its domain %.260q, so a proof there proves nothing about the domain", d.VerificationHost, d.Domain)
	}
	if err := dnscheck.CheckHost(d.VerificationHost); err != nil {
		return fmt.Errorf("verification_host: %w", err)
	}
	if n := len(d.VerificationTXT); n == 0 || n > maxToken {
		return fmt.Errorf("verification_txt: want 1 to %d bytes, got %d", maxToken, n)
	}
	return nil
}

// refused returns the row of a record that cannot be checked: it is settled when it is
// found. It can be retried once the record is corrected.
func refused(content []byte, why error) *ledger.FoundRow {
	return &ledger.FoundRow{Content: content, Result: ledger.Result{Outcome: engine.Refused, Detail: engine.Clip(why.Error(), maxDetail)}}
}

const (
	// maxDetail and maxReason bound the reason of a row and of a scan, in which the API may
	// be quoted, in bytes.
	maxDetail = 4 << 10
	maxReason = 2 << 10
	// maxName bounds a text of a record that names the record, in bytes, since the API may
	// send any amount of it: a name has at most 255, an id 128.
	maxName = 300
)

// name returns as much of a record's text as names the record.
func name(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxName)], "")
}
