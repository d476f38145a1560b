package sweep_test

import (
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/sweep"
)

// TestMayBeWithdrawn compares records with the proof that is stored of their domain.
func TestMayBeWithdrawn(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		state  func(*sweep.DomainState)
		record func(*sweep.RecordRead)
		want   bool
	}{
		"as it was":     {func(*sweep.DomainState) {}, func(*sweep.RecordRead) {}, false},
		"pending":       {func(*sweep.DomainState) {}, func(r *sweep.RecordRead) { r.Status = schema.StatusPending }, true},
		"gone":          {func(*sweep.DomainState) {}, func(r *sweep.RecordRead) { r.Gone = true }, true},
		"another token": {func(*sweep.DomainState) {}, func(r *sweep.RecordRead) { r.TXT = "other" }, true},
		"never proven": {func(s *sweep.DomainState) { s.Proven = nil },
			func(r *sweep.RecordRead) { r.Status = schema.StatusPending }, false},
		"revoked by orgops": {func(s *sweep.DomainState) { s.Revoked = &sweep.Revocation{Set: sweep.SetPending} },
			func(r *sweep.RecordRead) { r.Status = schema.StatusPending }, false},
		"of another organization": {func(s *sweep.DomainState) { s.OrganizationID = "org_2" },
			func(r *sweep.RecordRead) { r.Status = schema.StatusPending }, false},
		"proven a minute ago": {func(s *sweep.DomainState) { s.Proven.At = at.Add(-time.Minute) },
			func(r *sweep.RecordRead) { r.Status = schema.StatusPending }, false},
		"restored a minute ago": {func(s *sweep.DomainState) { s.LastPresent = at.Add(-time.Minute) },
			func(r *sweep.RecordRead) { r.Status = schema.StatusPending }, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := sweep.DomainState{OrganizationID: "org_1", TokenHash: sweep.HashToken("host.example", "token"),
				Proven: &sweep.Proof{At: at.Add(-time.Hour)}}
			record := sweep.RecordRead{Domain: discovery.Domain{ID: "ord_1", OrganizationID: "org_1",
				Status: schema.StatusVerified, Host: "host.example", TXT: "token"}, At: at}
			c.state(&state)
			c.record(&record)
			if got := state.MayBeWithdrawn(record, at); got != c.want {
				t.Errorf("withdrawn: %t, want %t", got, c.want)
			}
		})
	}
}
