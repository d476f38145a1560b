// Package tasks describes the rows that can be submitted: their kinds and columns, how a row
// is checked, and the names of runs and tenants.
//
// It knows no queue and no Redis. Of this module it imports only apiclient and dnscheck.
package tasks
