// Package tenant reads and checks the settings of a tenant.
//
//	settings.go   the settings as flags and as members of a YAML file
//	check.go      checks, and the values that are derived; sweep.go: those of sweeps
//	change.go     whether settings, or the files that they name, have changed
//	announced.go  the part that workers announce to producers, in Redis
//	token.go      the source of access tokens
//	proxy.go      the proxies of the environment
//	print.go      the effective settings, for people
package tenant
