package console

import (
	"errors"

	"orgops/internal/web"
)

// unread describes an error of Redis, with its remedy.
func unread(err error) string {
	return "reading Redis failed: " + printable(err.Error()) + "; try again, and check /readyz"
}

// problemOf describes an error: a *web.Refusal, or Redis could not be read.
func problemOf(err error) string {
	if refused, ok := errors.AsType[*web.Refusal](err); ok {
		return refused.Text
	}
	return unread(err)
}
