package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"orgops/internal/untrusted"
)

// DomainStatus is the verification status of a discovery domain.
type DomainStatus string

// The two states of specification 3. A record may have another one, that of a newer service:
// it is not verified.
const (
	StatusPending  DomainStatus = "pending"
	StatusVerified DomainStatus = "verified"
)

// maxStatus bounds the status of a record, in bytes.
const maxStatus = 64

// DiscoveryDomain is a domain name that is attached to an organization
// (specification 2.1).
type DiscoveryDomain struct {
	ID     string       `json:"id"`
	Domain string       `json:"domain"`
	Status DomainStatus `json:"status"`
	// nil: missing in the record, which means neither true nor false
	UseForOrganizationDiscovery *bool  `json:"use_for_organization_discovery,omitempty"`
	VerificationTXT             string `json:"verification_txt"` // the token in DNS, opaque
	// the name of its TXT record, in the case that the service uses
	VerificationHost string `json:"verification_host"`
}

// DiscoveryDomainUpdate is the body of 4.1. A nil member is omitted. An omitted status does
// not change; the specification gives the flag a default of true, so a caller that must
// not change it sends it.
type DiscoveryDomainUpdate struct {
	Status                      *DomainStatus `json:"status,omitempty"`
	UseForOrganizationDiscovery *bool         `json:"use_for_organization_discovery,omitempty"`
}

// Validate requires at least one member (an empty body is legal, but changes nothing) and
// a status of the enumeration. The error is a *ValidationError.
func (u DiscoveryDomainUpdate) Validate() error { return invalid(u.check(nil)) }

func (u DiscoveryDomainUpdate) check(broken []FieldError) []FieldError {
	if u.Status == nil && u.UseForOrganizationDiscovery == nil {
		return append(broken, FieldError{
			Field: "update",
			Rule:  "want at least one of status, use_for_organization_discovery",
			Value: "{}",
		})
	}
	if u.Status != nil && !u.Status.known() {
		return append(broken, FieldError{Field: "status", Rule: "want pending or verified",
			Value: textValue(string(*u.Status))})
	}
	return broken
}

func (s DomainStatus) known() bool { return s == StatusPending || s == StatusVerified }

// domainRule is the rule of specification 2.1.
var domainRule = textRule{
	least: 3, most: 255,
	pattern: regexp.MustCompile(
		`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])$`),
}

func (d DiscoveryDomain) identifier() string { return d.ID }

// check checks the record by 2.1. A record without a required member, or with an invalid
// domain, cannot be proven.
func (d DiscoveryDomain) check() error {
	var missing []string
	for _, m := range []struct{ name, value string }{
		{"id", d.ID},
		{"domain", d.Domain},
		{"status", string(d.Status)},
		{"verification_host", d.VerificationHost},
		{"verification_txt", d.VerificationTXT},
	} {
		if m.value == "" {
			missing = append(missing, m.name)
		}
	}
	if missing != nil {
		return errors.New("missing or empty: " + strings.Join(missing, ", "))
	}
	if len(d.Status) > maxStatus {
		return fmt.Errorf("status: want pending or verified, got %s", textValue(string(d.Status)))
	}
	if broken := domainRule.check(nil, "domain", d.Domain); broken != nil {
		// Not a *ValidationError, which is for requests.
		return errors.New(broken[0].String())
	}
	return nil
}

// UpdateDiscoveryDomain changes status, flag or both (PATCH, specification 4.1) and returns
// the updated record. It is idempotent. Neither the client nor the service proves a domain
// that is set to verified: the caller must.
func (c *Client) UpdateDiscoveryDomain(ctx context.Context, org, id string,
	u DiscoveryDomainUpdate, intent Intent) (DiscoveryDomain, error) {
	k := domainRequest(OpUpdateDiscoveryDomain, http.MethodPatch, org, id)
	k.intent = intent
	k.body, k.invalid = u, invalid(u.check(checkDomainIDs(org, id)))
	return c.discoveryDomain(ctx, k, id)
}

// DiscoveryDomain reads one record. Reads are eventually consistent: they may return the
// record before its last change.
func (c *Client) DiscoveryDomain(ctx context.Context, org, id string) (DiscoveryDomain, error) {
	return c.discoveryDomain(ctx, domainRequest(OpGetDiscoveryDomain, http.MethodGet, org, id), id)
}

func checkDomainIDs(org, id string) []FieldError {
	return checkID(checkID(nil, "organization_id", org), "discovery_domain_id", id)
}

func domainRequest(operation, method, org, id string) request {
	return request{
		operation: operation,
		method:    method,
		path:      domainsPath(org) + "/" + url.PathEscape(id),
		limit:     maxRecordBytes,
		invalid:   invalid(checkDomainIDs(org, id)),
	}
}

func (c *Client) discoveryDomain(ctx context.Context, k request, id string) (DiscoveryDomain, error) {
	d, _, err := call(ctx, c, k, func(d DiscoveryDomain, _ answer) error { return d.checkIs(id) })
	if err == nil {
		c.report(ctx, d)
	}
	return d, err
}

// report logs the first status that the specification does not have.
func (c *Client) report(ctx context.Context, d DiscoveryDomain) {
	if !d.Status.known() {
		c.unknown.Do(func() {
			c.cfg.Logger.WarnContext(ctx, "the API has a status of domains that is not in its specification: it counts as pending",
				"status", untrusted.Plain(string(d.Status), maxStatus), "discovery_domain_id", d.ID)
		})
	}
}

// checkIs checks the record, and that it is the requested one: a cache or a gateway that
// confuses answers must not cause the wrong domain to be verified.
func (d DiscoveryDomain) checkIs(id string) error {
	if err := d.check(); err != nil {
		return err
	}
	if d.ID != id {
		return fmt.Errorf("it is the record of %s, not of the requested one", untrusted.Quote(d.ID, maxName))
	}
	return nil
}

// DiscoveryDomainsPage returns one page of an organization's domains, as
// [Client.OrganizationsPage] does of the organizations.
func (c *Client) DiscoveryDomainsPage(ctx context.Context,
	org, from string) (page []Listed[DiscoveryDomain], next string, err error) {
	l := list{operation: OpListDiscoveryDomains, path: domainsPath(org), member: "domains",
		invalid: CheckID("organization_id", org)}
	page, next, _, err = pageOf[DiscoveryDomain](ctx, c, l, from)
	for _, d := range page {
		if d.Err == nil {
			c.report(ctx, d.Record)
		}
	}
	return page, next, err
}

func domainsPath(org string) string { return organizationPath(org) + "/discovery-domains" }
