package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// young is how long a row's record may still be missing, or read as it was
// before a change: reads of discovery domains are eventually consistent.
const young = 5 * time.Minute

// target is what a proof is about: the TXT record that has to be there.
type target struct {
	Host string
	TXT  string
}

// record is what is kept of a discovery domain that was read for a row.
type record struct {
	Domain string `json:"domain"`
	Host   string `json:"host"`
	TXT    string `json:"txt"`
}

const keptRecord = "record"

// Record is what the ledger keeps of an open row's discovery domain, as JSON and
// by the name of RecordMark, once a worker has read it.
type Record = record

// RecordMark is that name.
const RecordMark = keptRecord

// records reads discovery domains for the handlers.
type records struct {
	api API
	now func() time.Time
}

// read GETs the domain. A 404 on a young row is taken for a read that is behind.
func (r records) read(ctx context.Context, job Job, organization, id string) (apiclient.DiscoveryDomain, error) {
	d, err := r.api.DiscoveryDomain(ctx, organization, id)
	if err != nil {
		var answer *apiclient.Error
		if errors.As(err, &answer) && answer.Status == http.StatusNotFound && r.young(job) {
			return d, transient(err)
		}
		return d, err
	}
	return d, nil
}

// below refuses a record whose domain cannot be any organization's, a public
// suffix for one, and one whose host is not below its domain.
func below(d apiclient.DiscoveryDomain) error {
	if _, err := dnscheck.CheckDomain(d.Domain); err != nil {
		return refused("the record's domain cannot be proven: %v", err)
	}
	if dnscheck.Within(d.VerificationHost, d.Domain) {
		return nil
	}
	return refused("the record's verification host %.260q is not below its domain %.260q, so a proof there proves nothing about the domain", d.VerificationHost, d.Domain)
}

func recordOf(d apiclient.DiscoveryDomain) record {
	return record{Domain: d.Domain, Host: d.VerificationHost, TXT: d.VerificationTXT}
}

// kept is what was kept of the row's domain, nil if nothing was.
func (r records) kept(job Job) *record {
	rec := new(record)
	if value, ok := job.kept[keptRecord]; !ok || json.Unmarshal(value, rec) != nil {
		return nil // none, or of another version: read again
	}
	return rec
}

// matches refuses a payload whose host or token is not the record's. On a
// young row the record may be read as it was before a change.
func (r records) matches(job Job, claimed target, rec record) error {
	var what string
	switch {
	case claimed.TXT != "" && claimed.TXT != rec.TXT:
		what = "verification_txt"
	case claimed.Host != "" && !sameName(claimed.Host, rec.Host):
		what = "verification_host"
	default:
		return nil
	}
	err := refused("%s of the row differs from the tenant's record of this domain; nothing was changed", what)
	if r.young(job) {
		return transient(err)
	}
	return err
}

func (r records) young(job Job) bool { return r.now().Sub(job.CreatedAt) < young }
