package apiclient

import (
	"crypto/tls"
	"crypto/x509"
)

// Trust has c accept the certificates of a server under test.
func Trust(c *Client, roots *x509.CertPool) {
	c.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
}

// ParseErrorBody is what the fuzz test reaches the parser of error bodies by.
func ParseErrorBody(body []byte, secrets ...Secret) (title, message, code string) {
	parsed := parseErrorBody(body, newMask(secrets...))
	return parsed.title, parsed.message, parsed.code
}
