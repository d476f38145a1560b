package ops

import (
	"net/url"
	"strings"

	"orgops/internal/cli"
	"orgops/internal/runs"
)

// runPath is where a run is shown.
func runPath(id string) string { return "/runs/" + url.PathEscape(id) }

// domainPath is where the discovery domain that a row of the run names is looked up;
// empty where it names none.
func domainPath(r runs.Run, row cli.RowName) string {
	if row.Domain == "" || !strings.HasPrefix(r.Kind, "domain:") {
		return ""
	}
	return domainURL(cli.DomainName{Tenant: r.Tenant, Organization: row.Organization, ID: row.Domain})
}
