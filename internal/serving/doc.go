// Package serving is shared by the HTTP servers: an HTTP server with its limits, TLS whose
// certificate is read again when its files change, downloads, and the addresses and hosts
// that only this machine reaches.
//
// TLS is not exporter-toolkit's web package: that takes its own flags and configuration
// file, owns the listener, and limits neither sign-ins per address nor roles.
package serving
