package schema

// The names of the operations in permits, metrics and errors.
const (
	OpUpdateDiscoveryDomain     = "update_discovery_domain"
	OpGetDiscoveryDomain        = "get_discovery_domain"
	OpListDiscoveryDomains      = "list_discovery_domains"
	OpListOrganizations         = "list_organizations"
	OpRemoveOrganizationClients = "remove_organization_clients"
	OpCreateTemplate            = "create_template"
	OpListTemplates             = "list_templates"
)

// Writes reports whether a request of the operation may change something: a PATCH, POST
// or DELETE. It is true for unknown operations.
func Writes(operation string) bool {
	switch operation {
	case OpGetDiscoveryDomain, OpListDiscoveryDomains, OpListOrganizations, OpListTemplates:
		return false
	}
	return true
}
