package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
)

const (
	// The most rows, and bytes of their texts, that wait to be looked up together.
	mostWaiting      = 1000
	mostWaitingBytes = 1 << 20
	// mostListed is how many domains of one name an error lists.
	mostListed = 10
)

// Named returns a function that reads the domains of names from the tenant's index of names, as few
// round trips as commands for many names can be sent together. It is for [Input.Named].
func (i Intake) Named(ctx context.Context, t ledger.Tenant) func(names []string) ([][]index.Entry, error) {
	return func(names []string) ([][]index.Entry, error) {
		all := make([][]index.Entry, len(names))
		err := redisconn.Batch(ctx, i.Redis, len(names), func(n int, rdb redis.Cmdable) error {
			known, err := index.Named(ctx, ledger.New(rdb), t, names[n])
			all[n] = known
			return err
		})
		return all, err
	}
}

// addOrWait passes a row on, unless it or one before it has to be looked up by its name.
func (r *reading) addOrWait(one readRow) error {
	if len(r.waiting) == 0 && !one.row.NeedsIDs() {
		return r.add(one)
	}
	one.text = bytes.Clone(one.text)
	r.waiting = append(r.waiting, one)
	r.bytes += len(one.text)
	if len(r.waiting) < mostWaiting && r.bytes < mostWaitingBytes {
		return nil
	}
	return r.addWaiting()
}

// addWaiting passes on the rows that wait, with their ids.
func (r *reading) addWaiting() error {
	rows := r.waiting
	r.waiting = nil
	r.bytes = 0
	if err := r.lookUp(rows); err != nil {
		return err
	}
	for _, one := range rows {
		if err := r.add(one); err != nil {
			return err
		}
	}
	return nil
}

// lookUp finds the ids of rows that name a domain without its organization. A row whose domain is
// not known, or which several organizations have, is bad.
func (r *reading) lookUp(rows []readRow) error {
	var asked []*readRow
	var names []string
	for i := range rows {
		one := &rows[i]
		if one.Err != nil || !one.row.NeedsIDs() {
			continue
		}
		asked = append(asked, one)
		names = append(names, one.row.Domain())
	}
	if len(names) == 0 {
		return nil
	}
	if r.in.Named == nil {
		return errors.New("no domain can be looked up by its name here")
	}
	found, err := r.in.Named(names)
	if err != nil {
		return err
	}
	for i, one := range asked {
		r.name(one, slices.DeleteFunc(found[i], func(k index.Entry) bool {
			another := one.row.Organization() != "" && one.row.Organization() != k.OrganizationID
			return another || !r.in.Organizations.has(k.OrganizationID)
		})...)
	}
	return nil
}

// name gives a row the ids of its domain, of which all with its name are given.
func (r *reading) name(one *readRow, found ...index.Entry) {
	switch name := one.row.Domain(); {
	case len(found) > 1:
		var all []string
		for _, k := range found[:min(len(found), mostListed)] {
			all = append(all, fmt.Sprintf("%s (%s, %s)", k.OrganizationID, k.ID, k.Status))
		}
		if more := len(found) - len(all); more > 0 {
			all = append(all, fmt.Sprintf("and %d more", more))
		}
		r.bad(one, "several organizations have domain %s: %s: add the organization_id of one of them", name,
			strings.Join(all, ", "))
	case len(found) == 0 || found[0].OrganizationID == "":
		r.found.Invalid.Unknown++
		missing := "organization_id"
		if one.row.Organization() != "" {
			missing = "discovery_domain_id"
		}
		r.bad(one, "no domain %s is known here: add its %s, or have the tenant's domains read", name, missing)
	default:
		var err error
		if one.row, err = r.kind.WithIDs(one.row, found[0].OrganizationID, found[0].ID); err != nil {
			r.bad(one, "%s", oneLine(err))
		}
	}
}
