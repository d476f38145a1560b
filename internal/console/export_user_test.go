package console

// WithUser sets the user of a context's requests, instead of the one that finds
// that out.
var WithUser = withUser
