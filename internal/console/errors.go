package console

// refusal is the reason why a request is refused: for its client, and for the log.
type refusal struct {
	status int
	text   string
	reason string // of the log, in one word; empty: it is not logged
	about  []any  // further attributes of the log, in pairs
}

func (r *refusal) Error() string { return r.text }

// unread describes an error of Redis, with its remedy.
func unread(err error) string {
	return "reading Redis failed: " + printable(err.Error()) + "; try again, and check /readyz"
}
