// Package cli has the parts of a command line that both commands share: flags with their
// environment variables, exit statuses, logging, manual pages and completions.
//
// Data goes to stdout, logs and progress to stderr.
//
// The files, each of which uses those below it:
//
//	manual.go       manual pages and completion scripts
//	logging.go      loggers
//	level_unix.go, level_other.go: the log level by signals
//	secret.go       secrets in files and variables
//	parse.go        arguments and flags
//	mistake.go      mistakes in arguments
//	exit.go         exit statuses, and errors with a way to fix them
//	time.go         times that people write
//	duration.go     durations of flags and files
//	environment.go  the environment, and misspelt variables
//	variables.go    the names of all variables
//	version.go      the version of the build
//	yaml.go         settings files
package cli
