package console

// unread describes an error of Redis, with its remedy.
func unread(err error) string {
	return "reading Redis failed: " + printable(err.Error()) + "; try again, and check /readyz"
}
