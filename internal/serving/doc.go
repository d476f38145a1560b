// Package serving has what our HTTP servers share: files that are read again when
// they change, TLS from such files, and which addresses only this machine reaches.
package serving
