package tasks

import (
	"time"

	"orgops/apiclient"
)

// after is how long from now its task is due, in whole seconds.
func (r Row) after(now time.Time) time.Duration {
	if wait := r.due.Sub(now); !r.due.IsZero() && wait > 0 {
		return wholeSeconds(wait)
	}
	return 0
}

// payload is that of the row's task; clients are removed in batches, and have
// none of their own.
func (r Row) payload(e Envelope, giveUpAt time.Time) any {
	switch r.kind {
	case TypeVerify:
		return VerifyPayload{
			Envelope: e, OrganizationID: r.organization, DiscoveryDomainID: r.id,
			VerificationHost: r.host, VerificationTXT: r.txt,
			UseForOrganizationDiscovery: r.use, GiveUpAt: giveUpAt,
		}
	case TypeUpdate:
		return r.update(e)
	case TypeRecheck:
		return r.recheck.payload(e)
	}
	return CreatePayload{Envelope: e, Template: r.template}
}

func (r Row) update(e Envelope) UpdatePayload {
	c := r.change()
	return UpdatePayload{Envelope: e, OrganizationID: r.organization, DiscoveryDomainID: r.id, Status: c.Status, UseForOrganizationDiscovery: c.UseForOrganizationDiscovery}
}

func (r recheckRow) payload(e Envelope) RecheckPayload {
	return RecheckPayload{
		Envelope: e, OrganizationID: r.OrganizationID, DiscoveryDomainID: r.DiscoveryDomainID, Domain: r.Domain,
		VerificationHost: r.VerificationHost, VerificationTXT: r.VerificationTXT, Status: apiclient.DomainStatus(r.Status),
		UseForOrganizationDiscovery: r.UseForOrganizationDiscovery, Prove: r.Prove, Tick: r.Tick,
	}
}
