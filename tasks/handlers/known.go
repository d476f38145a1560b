package handlers

import (
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/index"
)

// learn sets the subject of the row, which the ledger stores when the execution ends.
func learn(x *engine.Execution, row *engine.Row, k index.Entry) {
	k.At, k.Run, k.Segment, k.Row = x.Now(), x.Run, x.Segment.Number, row.Number
	if s := k.Subject(); s != nil {
		row.Subject = s
	}
}

// knownOf returns what a record says that was read now.
func knownOf(x *engine.Execution, organization string, d schema.DiscoveryDomain) index.Entry {
	return index.Entry{OrganizationID: organization, ID: d.ID, Domain: d.Domain,
		Host: d.VerificationHost, TXT: d.VerificationTXT,
		Status: d.Status, Read: x.Now()}
}
