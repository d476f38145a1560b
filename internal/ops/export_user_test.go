package ops

// WithUser says who makes the requests of a context, in the place of whoever finds
// that out.
var WithUser = withUser
