// Package cli has the parts of a command line that both commands share: flags with their
// environment variables, exit statuses, logging, manual pages and completions.
//
// Data goes to stdout, logs and progress to stderr.
package cli
