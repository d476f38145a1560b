// Package terminal writes what package status reads as text, for people at a terminal: tables, and
// the progress of runs. The commands use it; pages and the HTTP API do not.
//
//	follow.go  progress of runs until they have ended
//	domain.go  a domain, its rows and what sweeps have stored of it
//	run.go     runs, and the reasons of their open and failed rows
//	check.go   a check of a TXT record
//	table.go   tables
package terminal
