// Package simulation has tests only, in virtual time and with the real ledger, dispatcher
// and handlers. One sweeps a tenant daily for sixty days, and compares every change
// of a record, and every one that is missing, with the history of its domain. The other
// has a fleet of workers execute rows of all kinds for many tenants while workers, Redis,
// clocks and the API fail, and compares the ledger with the tenants.
package simulation
