// Package discovery has the record of a discovery domain as packages pass it to one another.
//
// The forms in which it is sent or stored are in the packages that do so, each with functions that
// convert it from and to a Domain:
//
//	apiclient/schema.DiscoveryDomain   of the API: [Of]
//	tasks.ScannedRecord                in rows of scans, also as ListedRecord and RecheckRow: Scanned,
//	                                   ScannedRecord.Of
//	internal/evidence.Record           with checks and proofs: RecordOf, ProvenRecordOf,
//	                                   Record.DiscoveryDomain; Record.Proves compares them
//	internal/index.Entry               in the index of names: Entry.pack, Read
//	internal/status.KnownDomain        on pages and as JSON: KnownOf, KnownDomain.record
//
// Rows of tasks.VerifyRow name what their submitter says of a record, and are compared with it.
// The states of sweeps keep its name, and a hash of host and token.
//
// A Domain has no JSON form itself: a token must not get into an event by being a member of
// something else.
package discovery

import "orgops/apiclient/schema"

// Domain is the record of an organization's discovery domain (specification 2.1).
type Domain struct {
	OrganizationID string
	ID             string
	Name           string
	// Host and TXT are the name and the value of the TXT record that proves the domain.
	Host, TXT string
	Status    schema.DomainStatus
	// Flag is use_for_organization_discovery; nil: the record has none, which means neither true
	// nor false.
	Flag *bool
}

// Of returns the organization's domain whose record the API has returned.
func Of(organization string, d schema.DiscoveryDomain) Domain {
	return Domain{
		OrganizationID: organization,
		ID:             d.ID,
		Name:           d.Domain,
		Host:           d.VerificationHost,
		TXT:            d.VerificationTXT,
		Status:         d.Status,
		Flag:           d.UseForOrganizationDiscovery,
	}
}

// IsVerified reports whether the domain is verified. A status that the specification does not have
// counts as pending.
func (d Domain) IsVerified() bool { return d.Status == schema.StatusVerified }
