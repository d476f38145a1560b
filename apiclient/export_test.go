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
