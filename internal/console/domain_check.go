package console

import (
	"context"
	"time"

	"orgops/internal/discovery"
	"orgops/internal/status"
)

// checkWait bounds a check: a proof takes ten seconds at most at the name servers and six at the
// resolvers, the diagnosis six.
const checkWait = 30 * time.Second

// Bounds of the checks: each queries some dozen servers of others.
const (
	checkEvery = 10 * time.Second
	checkBurst = 3
)

// checkNow checks the domain as a worker does before it PATCHes it to verified. Host and value
// are those of the API's record or, if that was not read, of the record that a worker read
// before. They are never a user's input, since the page shows the records that are found there.
func checkNow(ctx context.Context, t Tenant, served bool, record discovery.Domain,
	known status.Domain) *checkView {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	asked := record
	v := &checkView{Of: "the API's current record"}
	switch {
	case !served || t.DNS == nil:
		v.Problem = "this worker does not serve the tenant and has none of its resolvers: open the pages of a worker that does"
		return v
	case asked.Host == "" && known.Record != nil:
		asked = known.Record.DiscoveryDomain("", "")
		v.Of = "the record that a worker read for an open row"
	case asked.Host == "":
		v.Problem = "host and value of the record are unknown: the API's record could not be read, and no open row has a copy"
		return v
	}
	found, err := status.Check(ctx, t.DNS, asked)
	switch {
	case err != nil:
		v.Problem = "the check did not finish in time: " + printable(err.Error())
	case found.Error != "":
		v.Problem = "the record was not checked: " + printable(found.Error)
	default:
		v.Findings = found.Findings
	}
	return v
}
