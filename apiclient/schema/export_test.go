package schema

// Claims are the claims of a presentation.
var Claims = claims
