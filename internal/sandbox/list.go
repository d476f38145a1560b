package sandbox

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/url"
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

type listQuery struct {
	id     string // begins the list's checkpoints, so that another list refuses them
	after  int64  // checkpoint: the record before the page; 0: none
	take   int    // records of the page at most
	offset bool   // the list is read by offsets
	start  int    // offset: records before the page
	totals bool   // offset: the answer has the number of all records
}

func readList(query url.Values, id string) (listQuery, error) {
	q := listQuery{id: id}
	q.offset = !query.Has("from") && !query.Has("take") && (query.Has("page") || query.Has("per_page") ||
		query.Has("include_totals"))
	page, err1 := integer(query, "page", 0, 1<<20, 0)
	perPage, err2 := integer(query, "per_page", 0, mostTake, usualTake)
	take, err3 := integer(query, "take", 1, mostTake, usualTake)
	totals, err4 := boolean(query, "include_totals")
	after, err5 := from(query, id)
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return q, err
	}
	q.after = after
	q.take = take
	if !q.offset {
		return q, nil
	}
	q.take = perPage
	q.start = page * perPage
	q.totals = totals
	if q.start+q.take > mostOffset {
		return q, fmt.Errorf("'You can only page through the first %d records' on property page", mostOffset)
	}
	return q, nil
}

func integer(query url.Values, name string, least, most, usual int) (int, error) {
	if !query.Has(name) {
		return usual, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("'Expected an integer from %d to %d but found: %s' on property %s", least, most,
			capped(query.Get(name)), name)
	}
	return n, nil
}

func boolean(query url.Values, name string) (bool, error) {
	switch text := query.Get(name); {
	case !query.Has(name), text == "false":
		return false, nil
	case text == "true":
		return true, nil
	default:
		return false, fmt.Errorf("'Expected type boolean but found: %s' on property %s", capped(text), name)
	}
}

// listAnswer returns the requested page of a list, of records as see converts them; see may
// skip records.
func listAnswer[T, V any](q listQuery, name string, list *ordered[T], see func(T) (V, bool)) answer {
	if !q.offset {
		found, next := page(list, q.after, q.take, see)
		body := map[string]any{name: found}
		if next != 0 {
			body["next"] = base64.RawURLEncoding.EncodeToString(fmt.Append([]byte(q.id), next))
		}
		return answer{status: http.StatusOK, body: body}
	}
	all, _ := page(list, 0, math.MaxInt, see)
	found := all[min(q.start, len(all)):min(q.start+q.take, len(all))]
	if !q.totals {
		return answer{status: http.StatusOK, body: found}
	}
	return answer{
		status: http.StatusOK, body: map[string]any{name: found, "start": q.start, "limit": q.take, "total": len(all)},
	}
}

// from reads a checkpoint: the number after which its page begins.
func from(query url.Values, id string) (int64, error) {
	if !query.Has("from") {
		return 0, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(query.Get("from"))
	number, ok := strings.CutPrefix(string(data), id)
	after, err2 := strconv.ParseInt(number, 10, 64)
	if err != nil || !ok || err2 != nil || after < 1 {
		return 0, fmt.Errorf("'Invalid checkpoint: %s' on property from", capped(query.Get("from")))
	}
	return after, nil
}
