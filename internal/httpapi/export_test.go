package httpapi

import (
	"maps"
	"slices"
)

// Routes are those that there are.
func Routes() []string {
	var all []string
	for _, one := range new(Server).table() {
		all = append(all, one.pattern)
	}
	return all
}

// Parameters are those of all routes' queries.
func Parameters() []string {
	var all []string
	for _, one := range new(Server).table() {
		all = append(all, one.parameters...)
	}
	return all
}

// Problems are the words of all problems.
func Problems() []string { return slices.Sorted(maps.Keys(titles)) }

// Find is the name of a token's caller.
func (t *Tokens) Find(secret string) (string, bool) {
	caller, known := t.find(secret)
	return caller.Name, known
}

// ParseTokens are the callers' names of a file's text.
func ParseTokens(text []byte) ([]string, error) {
	list, err := parseTokens(text)
	var names []string
	for _, one := range list {
		names = append(names, one.caller.Name)
	}
	return names, err
}
