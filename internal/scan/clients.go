package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// A client is removed from all organizations by two runs, each with a scan. That of the first lists
// the organizations that have the client, as rows that are settled when they are found: there is
// nothing to release. A person counts them. The scan of the second compares, and adds the rows of
// the list that are removed only when it has read all organizations and found no other. So no
// removal exists before the comparison, and none of an organization that was not counted.
//
// Each part is a step, which may be repeated: the comparison is a part of the position, and a row
// that is added again has the key of the first.

// clientSearch is the search of an execution for a client.
type clientSearch struct {
	*reader

	list *clientList // of the execution; nil: it was not read
}

// read reads a page of organizations, or takes rows of the list once all are read.
func (s *clientSearch) read(ctx context.Context, at position, _ bool) (o outcome, err error) {
	o.position = at
	if at.List == "" {
		return o, s.readList(ctx, &o)
	}

	if s.list == nil {
		if s.list, err = s.listOf(ctx, at); err != nil {
			return o, err
		}
	}
	if !at.Through {
		return o, s.compare(ctx, &o)
	}
	s.list.take(&o)
	return o, nil
}

// readList lists the organizations of a page that have the client.
func (s *clientSearch) readList(ctx context.Context, o *outcome) error {
	having, err := s.page(ctx, o)
	if err != nil {
		return err
	}
	for _, org := range having {
		row, err := listedRow(o.Client, org)
		if err != nil {
			return err
		}
		o.rows = append(o.rows, row)
		o.Found++
		if org.AppEntitlement {
			o.Entitled++
		}
	}
	if o.Through && o.Found == 0 {
		return noneSays(o.Client)
	}
	return nil
}

// compare compares a page of organizations with the list. The error refuses the removal.
func (s *clientSearch) compare(ctx context.Context, o *outcome) error {
	having, err := s.page(ctx, o)
	if err != nil {
		return err
	}
	o.Still = append([]byte(nil), o.Still...) // those of the step before, in case this one is repeated
	if o.Still == nil {
		o.Still = make([]byte, (o.Counted+7)/8)
	}
	o.First = append([]string(nil), o.First...)
	for _, org := range having {
		row, listed := s.list.rows[org.ID]
		switch {
		case !listed:
			o.New++
			if len(o.First) < firstShown {
				o.First = append(o.First, org.ID)
			}
		case o.Still[row/8]&(1<<(row%8)) == 0: // lists may have an organization twice
			o.Still[row/8] |= 1 << (row % 8)
			o.Found++
			if org.AppEntitlement {
				o.Entitled++
			}
		}
	}
	if !o.Through {
		return nil
	}
	return o.compared()
}

// firstShown is how many organizations a refusal names.
const firstShown = 10

// compared returns why nothing is removed, once all organizations are read; nil: it is.
func (p position) compared() error {
	const again = "Nothing was removed. List and count again: enqueue clients remove --client %s --everywhere"
	switch {
	case p.New > 0:
		more := ""
		if n := p.New - int64(len(p.First)); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return engine.Refuse("counted %d, found %d: run %s does not list %d that have the client now: %s%s. "+again,
			p.Counted, p.Found+p.New, p.List, p.New, strings.Join(p.First, ", "), more, p.Client)
	case p.Missed > 0:
		return engine.Refuse("organizations that could not be compared: %d (%s). "+again, p.Missed, p.Why, p.Client)
	case p.Found == 0:
		return noneSays(p.Client)
	}
	return nil
}

// noneSays refuses a list in which no organization has the client: that a tenant does not know the
// parameter is no answer.
func noneSays(client string) error {
	return engine.Refuse("no organization says that it has client %[1]s: the id is wrong, none has the client, or the "+
		"tenant does not know the parameter include_client_association_for, which the platform calls early access. "+
		"Nothing was removed. Look at one that should have it (GET organizations/ORG/clients); if it does, submit a "+
		"file: enqueue clients remove FILE", client)
}

// page reads the next page of organizations, and returns those that have the client and are not
// protected. One that cannot be read is missed: it is not taken for one without the client.
func (s *clientSearch) page(ctx context.Context, o *outcome) (having []schema.OrganizationOf, err error) {
	if err := s.requests.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.requests.Release(1)
	var records []apiclient.Listed[schema.OrganizationOf]
	records, next, err := s.client(s.wanted).OrganizationsPageFor(ctx, o.Client, o.From)
	if err != nil {
		return nil, err
	}
	for _, l := range records {
		bad := l.Err
		if bad == nil {
			bad = tasks.CheckOrganization(l.Record.ID)
		}
		if bad != nil {
			o.missed("an organization: " + bad.Error())
			continue
		}
		o.Read++
		switch {
		case l.Record.Client == nil:
		case s.protected != nil && s.protected(l.Record.ID):
			o.Protected++
		default:
			having = append(having, l.Record)
		}
	}
	return having, o.follow(next)
}

// listedRow returns the row of a list: a removal that is not made.
func listedRow(client string, org schema.OrganizationOf) (ledger.FoundRow, error) {
	content, err := json.Marshal(tasks.RemoveRow{OrganizationID: org.ID, ClientID: client,
		UseForMemberAccess: org.Client.UseForMemberAccess})
	if err != nil {
		return ledger.FoundRow{}, fmt.Errorf("organization %s: write its row: %w", org.ID, err)
	}
	why := "has the client; listed, and not removed"
	if org.AppEntitlement {
		why += "; its app entitlement is active: without the client its members cannot use the application"
	}
	return ledger.FoundRow{Key: org.ID, Content: content,
		Result: ledger.Result{Outcome: ledger.Unchanged, Detail: why}}, nil
}

// clientList is a list of the organizations of a client.
type clientList struct {
	rows     map[string]int // the number of an organization's row
	contents [][]byte
	ids      []string // of the organizations
}

// listOf reads the list of a removal. The error refuses the removal if the list is not the one that
// was counted.
func (s *clientSearch) listOf(ctx context.Context, p position) (*clientList, error) {
	const again = "Nothing more is removed. List and count again: enqueue clients remove --client %s --everywhere"
	run, err := s.lists.Run(ctx, s.x.Segment.Tenant, ledger.RunID(p.List))
	if errors.Is(err, ledger.ErrNotFound) || (err == nil && string(run.Incarnation) != p.ListIncarnation) {
		return nil, engine.Refuse("run %s, whose rows were counted, was deleted. "+again, p.List, p.Client)
	}
	if err != nil {
		return nil, err
	}
	list := &clientList{rows: map[string]int{}}
	for row, err := range s.lists.Each(ctx, run, ledger.Every, 0) {
		if err != nil {
			return nil, err
		}
		var content tasks.RemoveRow
		if err := engine.Decode(row.Content, &content); err != nil {
			return nil, err
		}
		list.rows[content.OrganizationID] = len(list.contents)
		list.contents = append(list.contents, row.Content)
		list.ids = append(list.ids, content.OrganizationID)
	}
	if n := len(list.contents); int64(n) != p.Counted {
		return nil, engine.Refuse("run %s has %d rows, and %d were counted. "+again, p.List, n, p.Counted, p.Client)
	}
	return list, nil
}

// takeAtOnce is how many rows of a list are added by a step.
const takeAtOnce = 1000

// take adds rows of the list whose organizations still have the client.
func (l *clientList) take(o *outcome) {
	for ; o.Next < o.Counted && len(o.rows) < takeAtOnce; o.Next++ {
		if o.Still[o.Next/8]&(1<<(o.Next%8)) != 0 {
			o.rows = append(o.rows, ledger.FoundRow{Key: l.ids[o.Next], Content: l.contents[o.Next]})
		}
	}
}
