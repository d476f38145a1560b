// Package tenant reads and checks the settings of a tenant.
//
//	print.go      the effective settings, for people
//	identity.go   which tenant of the platform a name stands for, in Redis
//	check.go      checks, and the values that are derived; sweep.go: those of sweeps
//	change.go     whether settings, or the files that they name, have changed
//	token.go      the source of access tokens
//	remedy.go     what a person should do while the API or the token endpoint refuses requests
//	proxy.go      the proxies of the environment
//	settings.go   the settings as flags and as members of a YAML file
//	announced.go  those of them that workers announce to producers, in Redis
package tenant
