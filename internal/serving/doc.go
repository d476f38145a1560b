// Package serving has what our HTTP servers share: files that are read again when
// they change, TLS from such files, answers that are files, and which addresses and hosts
// only this machine reaches.
package serving
