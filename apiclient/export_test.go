package apiclient

// ParseErrorBody is what the fuzz test reaches the parser of error bodies by.
func ParseErrorBody(body []byte, secrets ...Secret) (title, message, code string) {
	parsed := parseErrorBody(body, mask(secrets))
	return parsed.title, parsed.message, parsed.code
}

// ReadDomain reads one record of a page of discovery domains.
func ReadDomain(text []byte) Listed[DiscoveryDomain] {
	return readRecord[DiscoveryDomain](text, "domains[0]", nil)
}

// Answered has the client take note of an answer to its freshest token.
func (c *Client) Answered(status int) { c.refused.answered(status) }
