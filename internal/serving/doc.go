// Package serving is shared by the HTTP servers: an HTTP server with its limits, TLS whose
// certificate is read again when its files change, downloads, and the addresses and hosts
// that only this machine reaches.
//
// TLS is not exporter-toolkit's web package: that takes its own flags and configuration
// file, owns the listener, and limits neither sign-ins per address nor roles.
//
// The files, each of which uses those below it:
//
//	serve.go     an HTTP server with its limits
//	download.go  a file that is sent while it is made
//	loopback.go  addresses and hosts that only this machine reaches
//	tls.go       certificates
//	reload.go    a value of files, which is read again when they change
package serving
