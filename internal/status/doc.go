// Package status describes runs, rows, domains and sweeps to people: for the commands, the
// pages and the intake over HTTP alike.
package status
