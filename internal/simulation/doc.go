// Package simulation has tests only: in virtual time, and with the real ledger, dispatcher and
// handlers, a fleet of workers executes rows of all kinds for many tenants while workers, Redis,
// clocks and the API fail. An oracle compares the ledger with the tenants.
package simulation
