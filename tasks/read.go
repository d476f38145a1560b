package tasks

// TypeRead is the kind of rows that read a discovery domain and check its token once, and change
// nothing. They have the form of those of [TypeVerify].
const TypeRead = "domain:read"

var read = Kind{
	Name:    TypeRead,
	Label:   "Say of discovery domains whether they exist, are verified, or have their token in DNS; change nothing.",
	Columns: verify.Columns,
	check:   verify.check,
}
