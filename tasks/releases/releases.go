// Package releases says how the rows of each kind are released.
package releases

import (
	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/internal/release"
	"orgops/tasks"
)

// Kinds returns how the rows of each kind are released for a tenant whose requests name at most
// that many clients. Operations are those that every row of a kind needs.
func Kinds(maxClientsPerRequest int) map[ledger.Kind]release.Kind {
	return map[ledger.Kind]release.Kind{
		tasks.TypeVerify:                 verify,
		tasks.TypeRead:                   read,
		tasks.TypeUpdate:                 update,
		tasks.TypeRemove:                 remove(maxClientsPerRequest),
		tasks.TypeCreate:                 create,
		tasks.TypeRecheck:                recheck,
		tasks.TypeRevoke:                 revoke,
		ledger.ScanOf(tasks.TypeVerify):  scan,
		ledger.ScanOf(tasks.TypeRecheck): scan,
		ledger.ScanOf(tasks.TypeRemove):  scan,
	}
}

// scan releases the row of a scan. Its execution makes as many requests as it gets permits
// for within some seconds, behind those of other rows. An operation that is blocked refuses them.
var scan = release.Kind{Cost: release.Cost{First: 1, Check: 1}}

// verify counts two requests for a first execution: it reads the record, and changes it if the
// token is there. If one were counted, rows whose token is there would wait in their places for the
// second permit, and read the record again in the end. A check needs DNS only,
// and is released while operations are blocked.
var verify = release.Kind{
	Operations: release.Operations{
		First: []string{schema.OpGetDiscoveryDomain},
		Ready: []string{schema.OpGetDiscoveryDomain, schema.OpUpdateDiscoveryDomain},
	},
	Cost: release.Cost{First: 2, Ready: 2},
}

var read = release.Kind{
	Operations: release.Operations{First: []string{schema.OpGetDiscoveryDomain}},
	Cost:       release.Cost{First: 1},
}

// update has the read of the values that the PATCH replaces.
var update = release.Kind{
	Operations: release.Always(schema.OpGetDiscoveryDomain, schema.OpUpdateDiscoveryDomain),
	Cost:       release.Cost{First: 2, Check: 2, Ready: 2},
}

// recheck has no operations of a check, which needs DNS only, unless the token is gone: then
// it reads the record. A pending domain whose token is there is read and changed.
var recheck = release.Kind{
	Operations: release.Operations{Ready: []string{schema.OpGetDiscoveryDomain, schema.OpUpdateDiscoveryDomain}},
	Cost:       release.Cost{Ready: 2},
}

// revoke does not have the change: a domain whose token is there is not changed, and would
// not end the block of changes.
var revoke = release.Kind{Operations: release.Always(schema.OpGetDiscoveryDomain),
	Cost: release.Cost{First: 2, Check: 2, Ready: 2}}

// remove makes a task of the rows that one request removes.
func remove(maxClientsPerRequest int) release.Kind {
	return release.Kind{
		Operations: release.Always(schema.OpRemoveOrganizationClients), Cost: oneRequest,
		Batch: min(maxClientsPerRequest, schema.MaxClientsPerRequest), Group: tasks.OrganizationOf,
	}
}

var create = release.Kind{Operations: release.Always(schema.OpCreateTemplate), Cost: oneRequest}

// oneRequest is the cost of rows whose executions make one request, and of those that make two at
// times: a cost that is too high leaves a part of the tenant's rate unused; one that is too low
// only has tasks wait in their places for permits, at most as many as there are places.
var oneRequest = release.Cost{First: 1, Check: 1, Ready: 1}
