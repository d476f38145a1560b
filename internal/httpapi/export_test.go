package httpapi

import (
	"maps"
	"slices"
)

// Parameters are those of all routes' queries.
func Parameters() []string { return slices.Concat(slices.Collect(maps.Values(parameters))...) }

// Problems are the words of all problems.
func Problems() []string { return slices.Sorted(maps.Keys(titles)) }
