package sandbox

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// A list is read by checkpoints (from, take), which is the default, or by offsets (page,
// per_page) of at most mostOffset records. The vendor's SDKs send the parameters of offsets
// with every request of a list; they are ignored next to from or take.
var listParameters = []string{"from", "take", "page", "per_page", "include_totals"}

const (
	mostTake   = 100
	usualTake  = 50
	mostOffset = 1000
)

// listQuery is the requested page of a list.
type listQuery struct {
	after  int64 // checkpoint: the record before the page; 0: none
	take   int   // records of the page at most
	offset bool  // the list is read by offsets
	start  int   // offset: records before the page
	totals bool  // offset: the answer has the number of all records
}

// readList reads the parameters of a list.
func (c *call) readList() (q listQuery, err error) {
	q.offset = !c.query.Has("from") && !c.query.Has("take") && (c.query.Has("page") || c.query.Has("per_page") || c.query.Has("include_totals"))
	page, err1 := c.number("page", 0, 1<<20, 0)
	perPage, err2 := c.number("per_page", 0, mostTake, usualTake)
	take, err3 := c.number("take", 1, mostTake, usualTake)
	totals, err4 := c.boolean("include_totals")
	after, err5 := c.from()
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return q, err
	}
	q.after, q.take = after, take
	if !q.offset {
		return q, nil
	}
	q.take, q.start, q.totals = perPage, page*perPage, totals
	if q.start+q.take > mostOffset {
		return q, fmt.Errorf("'You can only page through the first %d records' on property page", mostOffset)
	}
	return q, nil
}

func (c *call) number(name string, least, most, usual int) (int, error) {
	if !c.query.Has(name) {
		return usual, nil
	}
	n, err := strconv.Atoi(c.query.Get(name))
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("'Expected an integer from %d to %d but found: %s' on property %s", least, most, capped(c.query.Get(name)), name)
	}
	return n, nil
}

func (c *call) boolean(name string) (bool, error) {
	switch text := c.query.Get(name); {
	case !c.query.Has(name), text == "false":
		return false, nil
	case text == "true":
		return true, nil
	default:
		return false, fmt.Errorf("'Expected type boolean but found: %s' on property %s", capped(text), name)
	}
}

// listAnswer returns the requested page of a list, of records as see converts them; see may
// skip records.
func listAnswer[T, V any](c *call, name string, list *ordered[T], see func(T) (V, bool)) answer {
	q := c.list
	if !q.offset {
		found, next := page(list, q.after, q.take, see)
		body := map[string]any{name: found}
		if next != 0 {
			body["next"] = c.checkpoint(next)
		}
		return answer{status: http.StatusOK, body: body}
	}
	all, _ := page(list, 0, math.MaxInt, see)
	found := all[min(q.start, len(all)):min(q.start+q.take, len(all))]
	if !q.totals {
		return answer{status: http.StatusOK, body: found}
	}
	return answer{status: http.StatusOK, body: map[string]any{name: found, "start": q.start, "limit": q.take, "total": len(all)}}
}

// checkpoint returns a checkpoint, which has its list, so that another list refuses it, and
// the number after which the next page begins.
func (c *call) checkpoint(after int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %s %d", c.Operation, c.Organization, after))
}

func (c *call) from() (int64, error) {
	if !c.query.Has("from") {
		return 0, nil
	}
	bad := fmt.Errorf("'Invalid checkpoint: %s' on property from", capped(c.query.Get("from")))
	data, err := base64.RawURLEncoding.DecodeString(c.query.Get("from"))
	if err != nil {
		return 0, bad
	}
	number, ok := strings.CutPrefix(string(data), c.Operation+" "+c.Organization+" ")
	if !ok {
		return 0, bad
	}
	after, err := strconv.ParseInt(number, 10, 64)
	if err != nil || after < 1 {
		return 0, bad
	}
	return after, nil
}
