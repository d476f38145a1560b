package apiclient

import (
	"time"

	"orgops/apiclient/schema"
)

// ParseErrorBody is the parser of error bodies, for its fuzz test.
func ParseErrorBody(body []byte, secrets ...Secret) (title, message, code string) {
	parsed := request{}.refused(answer{body: body, mask: secrets})
	return parsed.Title, parsed.Message, parsed.Code
}

// ReadDomain reads one record of a page of discovery domains.
func ReadDomain(text []byte) Listed[schema.DiscoveryDomain] {
	return readRecord[schema.DiscoveryDomain](text, "domains[0]", nil)
}

// Answered records an answer to the newest token.
func (c *Client) Answered(status int) { c.refused.answered(status) }

// SetTimeouts sets those of the TLS handshake and of an answer's header.
func (c *Client) SetTimeouts(handshake, header time.Duration) {
	c.transport.TLSHandshakeTimeout, c.transport.ResponseHeaderTimeout = handshake, header
}
