package sandbox

// The parsers of bodies and the bounded log are not exported; their tests use them here.

type (
	FormText = formText
	FormList = formList
	Tail     = struct {
		Next  func() int64
		Add   func(int64)
		At    func(int64) *int64
		Since func(int64) []int64
	}
)

var (
	ParseForm  = parseForm
	ParseJSON  = parseJSON
	ClaimNames = claimNames
)

func NewTail(least int) Tail {
	t := &tail[int64]{least: least}
	return Tail{Next: t.next, Add: t.add, At: t.at, Since: t.since}
}
