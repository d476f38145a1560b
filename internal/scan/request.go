package scan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// request is the search of a scan: [pending] or [swept].
type request interface {
	// row returns the row of a record that was listed at a time, in Redis' time; nil: it is
	// none.
	row(ctx context.Context, p progress.Scan, organization string, l listed, at time.Time) (*ledger.FoundRow, error)
}

// listed is a record of an organization's list.
type listed = apiclient.Listed[schema.DiscoveryDomain]

// outsideSpec returns why a record of an organization's list is outside the specification;
// nil if it is not.
func outsideSpec(organization string, l listed) error {
	err := l.Err
	if err == nil {
		err = tasks.CheckDomainID(l.Record.ID)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("organization %s: %w", organization, err)
}

// found returns a row. One of a record that cannot be checked is settled as refused when it is
// found; a sweep reads it again next time.
func found(organization string, content any, bad error) (*ledger.FoundRow, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("organization %s: write the row of a domain: %w", organization, err)
	}
	row := &ledger.FoundRow{Content: text}
	if bad != nil {
		row.Result = ledger.Result{Outcome: ledger.Refused, Detail: untrusted.Clip(bad.Error(), maxDetail)}
	}
	return row, nil
}

const (
	// maxDetail and maxReason bound the reason of a row and of a scan, in which the API may
	// be quoted, in bytes.
	maxDetail = 4 << 10
	maxReason = 2 << 10
	// maxName bounds a text of a record that names the record, in bytes, since the API may
	// send any amount of it: a name has at most 255, an id 128.
	maxName = 300
)

// name returns as much of a record's text as names the record.
func name(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxName)], "")
}
