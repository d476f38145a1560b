// Package simulation has a test only: it sweeps a tenant daily for sixty days of virtual
// time, by the real ledger, dispatcher, scanner and handlers, and compares every change of
// a record, and every one that is missing, with what had happened to its domain.
package simulation
