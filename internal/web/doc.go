// Package web is the HTTP side that the operators' pages and the intake share: the server and its
// limits, TLS, who has access, and the guard before every request.
//
// A [Front] has a table of routes, each with the roles that may use it: a route without roles is
// denied. Users are entries of one file ([Access]), which has the SHA-256 of each user's token. A
// token has 256 random bits in a fixed form, so that nobody guesses one: there is nothing to slow
// down, and no slow hash.
//
// It is not exporter-toolkit's web package: that takes its own flags and configuration file, owns
// the listener, and knows no roles.
//
// The files, each of which uses those below it:
//
//	settings.go  the settings of a server: files, and which addresses may be served
//	front.go     the guard of each request: user, role, limits, panics, log
//	origin.go    requests that another site makes a browser send
//	proxy.go     the user whom a proxy names
//	places.go    how many requests are served at a time, and how many of one caller
//	download.go  a file that is sent while it is made
//	request.go   the facts about a request: user, refusal, answer
//	access.go    the access file: tokens, roles and their limits
//	serve.go     an HTTP server with its limits
//	connections.go its connections
//	loopback.go  addresses and hosts that only this machine reaches
//	reload.go    a value of files, which is read again when they change
package web
