package sandbox

// The readers of bodies and the bounded log have no place in the API of the
// package; their tests reach them here.

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

func NewTail(kept int) Tail {
	t := &tail[int64]{kept: kept}
	return Tail{Next: t.next, Add: t.add, At: t.at, Since: t.since}
}
