package schema

import (
	"errors"
	"fmt"
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
func (u DiscoveryDomainUpdate) Validate() error { return Invalid(u.Broken(nil)) }

// Broken appends the rules that the update breaks.
func (u DiscoveryDomainUpdate) Broken(broken []FieldError) []FieldError {
	if u.Status == nil && u.UseForOrganizationDiscovery == nil {
		return append(broken, FieldError{
			Field: "update",
			Rule:  "want at least one of status, use_for_organization_discovery",
			Value: "{}",
		})
	}
	if u.Status != nil && !u.Status.Known() {
		return append(broken, FieldError{Field: "status", Rule: "want pending or verified",
			Value: untrusted.Value(*u.Status)})
	}
	return broken
}

// Known reports whether the specification has the status.
func (s DomainStatus) Known() bool { return s == StatusPending || s == StatusVerified }

// domainRule is the rule of specification 2.1.
var domainRule = textRule{
	least: 3, most: 255,
	pattern: regexp.MustCompile(
		`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])$`),
}

// Identifier returns the id of the record, unchecked.
func (d DiscoveryDomain) Identifier() string { return d.ID }

// Check checks the record by 2.1. A record without a required member, or with an invalid
// domain, cannot be proven.
func (d DiscoveryDomain) Check() error {
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
		return fmt.Errorf("status: want pending or verified, got %s", untrusted.Value(d.Status))
	}
	if broken := domainRule.check(nil, "domain", d.Domain); broken != nil {
		// Not a *ValidationError, which is for requests.
		return errors.New(broken[0].String())
	}
	return nil
}

// CheckIs checks the record, and that it is the requested one: a cache or a gateway that
// confuses answers must not cause the wrong domain to be verified.
func (d DiscoveryDomain) CheckIs(id string) error {
	if err := d.Check(); err != nil {
		return err
	}
	if d.ID != id {
		return fmt.Errorf("it is the record of %s, not of the requested one", untrusted.Quote(d.ID, untrusted.MaxName))
	}
	return nil
}
