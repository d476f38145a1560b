package tasks

import (
	"errors"
	"fmt"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/internal/discovery"
	"orgops/internal/untrusted"
)

// ScannedRecord is the record of a row's domain as a scan has read it, in the form in which the row
// stores it beside its ids.
type ScannedRecord struct {
	Domain           string              `json:"domain"`
	VerificationHost string              `json:"verification_host"`
	VerificationTXT  string              `json:"verification_txt"`
	Status           schema.DomainStatus `json:"status"`
	// UseForOrganizationDiscovery is nil if the record omits it.
	UseForOrganizationDiscovery *bool `json:"use_for_organization_discovery,omitempty"`
}

// Scanned returns the record as a row stores it.
func Scanned(d discovery.Domain) ScannedRecord {
	return ScannedRecord{
		Domain:                      d.Name,
		VerificationHost:            d.Host,
		VerificationTXT:             d.TXT,
		Status:                      d.Status,
		UseForOrganizationDiscovery: d.Flag,
	}
}

// Of returns the record as that of a row's domain.
func (r ScannedRecord) Of(organization, id string) discovery.Domain {
	return discovery.Domain{
		OrganizationID: organization,
		ID:             id,
		Name:           r.Domain,
		Host:           r.VerificationHost,
		TXT:            r.VerificationTXT,
		Status:         r.Status,
		Flag:           r.UseForOrganizationDiscovery,
	}
}

// CheckRecord returns why the record of a domain cannot be checked; nil: it can.
func CheckRecord(d discovery.Domain) error {
	if err := checkMembers(d); err != nil {
		return err
	}
	return CheckProvable(d.Name, d.Host)
}

// CheckProvable refuses a record whose domain cannot be any organization's, such as a public
// suffix, and one whose host is not below its domain.
func CheckProvable(domain, host string) error {
	if _, err := dnsname.CheckDomain(domain); err != nil {
		return fmt.Errorf("the record's domain cannot be proven: %w", err)
	}
	if dnsname.Within(host, domain) {
		return nil
	}
	return fmt.Errorf(
		"the record's verification host %s is not below its domain %s, so a proof there proves nothing about the domain",
		untrusted.Quote(host, 260), untrusted.Quote(domain, 260))
}

// maxDomain bounds the name of a domain, in bytes (specification 2.1).
const maxDomain = 255

// maxToken bounds verification_txt in bytes: a TXT record of that many does not fit a DNS
// message (RFC 1035 3.2.1).
const maxToken = 4096

// checkMembers checks each member of a record for itself.
func checkMembers(d discovery.Domain) error {
	if err := CheckDomainIDs(d.OrganizationID, d.ID); err != nil {
		return err
	}
	switch {
	case len(d.Name) > maxDomain:
		return fmt.Errorf("domain: at most %d bytes, got %d", maxDomain, len(d.Name))
	case d.TXT == "" || len(d.TXT) > maxToken:
		return fmt.Errorf("verification_txt: want 1 to %d bytes, got %d", maxToken, len(d.TXT))
	case d.Status == "":
		return errors.New("status: want that of the record")
	}
	if err := dnsname.CheckHost(d.Host); err != nil {
		return fmt.Errorf("verification_host: %w", err)
	}
	return nil
}

// CheckDomainIDs returns an error unless both ids have their form.
func CheckDomainIDs(organization, domain string) error {
	return errors.Join(CheckOrganization(organization), CheckDomainID(domain))
}
