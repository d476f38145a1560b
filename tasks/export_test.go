package tasks

// PlainRow decodes a row of domain:verify as [decodePlain] does, if it is a plain one, and
// StrictRow by encoding/json.
func PlainRow(object string) (row any, plain bool) {
	var r verifyRow
	plain = decodePlain(object, &r)
	return r, plain
}

func StrictRow(object string) (row any, err error) {
	var r verifyRow
	err = decodeStrict([]byte(object), &r)
	return r, err
}
