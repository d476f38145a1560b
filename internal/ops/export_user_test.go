package ops

// WithUser says who makes the requests of a context, instead of whoever finds
// that out.
var WithUser = withUser
