package handlers

import (
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// VerifyRow is the content of a row of kind [Verify].
type VerifyRow struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	// VerificationHost and VerificationTXT, if given, must be those of the record.
	VerificationHost string `json:"verification_host,omitempty"`
	VerificationTXT  string `json:"verification_txt,omitempty"`
	// UseForOrganizationDiscovery is set as given; nil: unchanged.
	UseForOrganizationDiscovery *bool `json:"use_for_organization_discovery,omitempty"`
	// Restore says that a revocation had set the domain to pending and is undone: by
	// a full proof only, and with UseForOrganizationDiscovery only if the record omits the
	// flag. No submitter can set it: the intake ignores members that begin with orgops_.
	Restore bool `json:"orgops_restore,omitempty"`
	// Listed is the record as a listing returned it; nil for a row that was submitted. No
	// submitter can set it, as with Restore.
	Listed *ListedDomain `json:"orgops_listed,omitempty"`
}

// ListedDomain is a record of a listing.
type ListedDomain struct {
	apiclient.DiscoveryDomain
	// At is when the listing was requested, in Redis' time.
	At time.Time `json:"at"`
}

// maxToken bounds verification_txt. A TXT record of that many bytes does not fit a DNS
// message (RFC 1035 3.2.1).
const maxToken = 4096

// Validate checks the row, as far as that needs no tenant.
func (r VerifyRow) Validate() error {
	err := errors.Join(apiclient.CheckID("organization_id", r.OrganizationID), apiclient.CheckID("discovery_domain_id", r.DiscoveryDomainID))
	if err == nil && r.VerificationHost != "" {
		if bad := dnscheck.CheckHost(r.VerificationHost); bad != nil {
			err = fmt.Errorf("verification_host: %w", bad)
		}
	}
	if err == nil && len(r.VerificationTXT) > maxToken {
		err = fmt.Errorf("verification_txt: at most %d bytes, got %d", maxToken, len(r.VerificationTXT))
	}
	if err == nil && r.Listed != nil && r.Listed.ID != r.DiscoveryDomainID {
		err = fmt.Errorf("listed: record of %.80q, not of %.80q", r.Listed.ID, r.DiscoveryDomainID)
	}
	return err
}
