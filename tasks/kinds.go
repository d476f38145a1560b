// Package tasks describes the kinds of rows: their columns, how a row is checked, who may submit
// it, and what commands, pages and the intake say of them. Package handlers executes them.
//
// It knows no queue and no Redis, so that a service which submits rows stays light. Of this module
// it imports only the objects of the API, the record of a domain and the names of DNS. Each file
// uses those below it:
//
//	kinds.go     the list of kinds
//	revoke.go    domain:revoke
//	recheck.go   domain:recheck
//	update.go    domain:update
//	read.go      domain:read
//	verify.go    domain:verify
//	undo.go      what a row undoes
//	record.go    the record of a domain in a row, and its check
//	remove.go    clients:remove
//	template.go  template:create
//	row.go       Kind, a kind's description; a row, and its check
//	names.go     names of runs and tenants, priorities
package tasks

import "slices"

// kinds are all kinds, in the order in which people read them.
var kinds = []Kind{verify, read, update, recheck, revoke, remove, create}

// All returns all kinds, in the order in which pages list them.
func All() []Kind { return slices.Clone(kinds) }

// Kinds returns the kinds whose rows anyone may submit.
func Kinds() []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return k.Submitter != Anyone })
}

// KindOf returns the kind of that name.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}
