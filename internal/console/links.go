package console

import (
	"net/url"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/status"
)

// link returns the path with those parameters that have a value.
func link(path string, parameters map[string]string) string {
	query := url.Values{}
	for name, value := range parameters {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// runPath returns the path of a run.
func runPath(id ledger.RunID) string { return "/runs/" + url.PathEscape(string(id)) }

// runLink returns an address below that of a run, with parameters: names and values, alternating.
func runLink(id ledger.RunID, below, tenant string, parameters ...string) string {
	query := map[string]string{"tenant": tenant}
	for pair := range slices.Chunk(parameters, 2) {
		query[pair[0]] = pair[1]
	}
	return link(runPath(id)+below, query)
}

// tenantsPath returns the page of a tenant; empty: of their names.
func tenantsPath(tenant string) string {
	return link("/tenants", map[string]string{"tenant": tenant})
}

// domainURL returns the page of a domain.
func domainURL(d status.DomainName) string {
	return link("/domains", map[string]string{"tenant": d.Tenant, "organization": d.Organization, "domain": d.ID})
}

// domainPath returns the page of the discovery domain that a row of the run names; empty: it
// names none.
func domainPath(r status.Run, row status.Row) string {
	if row.Domain == "" || !strings.HasPrefix(string(r.Kind), "domain:") {
		return ""
	}
	return domainURL(status.DomainName{Tenant: string(r.Tenant), Organization: row.Organization, ID: row.Domain})
}
