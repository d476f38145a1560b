// Package cli is what the commands share: flags with their environment
// variables, exit statuses, logging, and how runs are shown to a person.
//
// stdout is data; logs and progress go to stderr, bars only on a terminal.
package cli
