// Package tasks describes the rows that can be submitted: their kinds and columns, how a row
// is checked, the names of runs and tenants, and what rows amount to in tasks and requests.
//
// It knows no queue and no Redis. Of this module it imports apiclient and dnscheck alone.
package tasks
