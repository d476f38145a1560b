package tasks

// TypeRevoke is the kind of rows that revoke a domain whose token is gone, or route it again. A
// row is a sweep.RevokeRow: what it may set is decided by the states that sweeps store.
const TypeRevoke = "domain:revoke"

var revoke = Kind{
	Name: TypeRevoke, Command: "domains revoke",
	Label:       "Revoke domains whose TXT record sweeps have found gone, or undo that.",
	Submitter:   Operators,
	WholeObject: true,
	check:       checkIDsOf,
}
