package ledger

import "encoding/binary"

// grouping says which rows are released together.
type grouping struct {
	most int
	key  func(row []byte) string
}

// pieceMark is set in the order of release for the first row of a piece. A row has the
// other bits: [SegmentRows] is 1 << 13.
const pieceMark = 1 << 15

// order returns the order in which the rows of a segment are released, two bytes each: groups in
// the order of their first rows, each cut into pieces with most rows or fewer, and then the rows
// that are settled. It returns nil if the order is that of the rows' numbers.
func (g grouping) order(rows [][]byte, settled []RowResult) []byte {
	if g.key == nil || g.most <= 1 {
		return nil
	}
	apart := make(map[Row]bool, len(settled))
	for _, r := range settled {
		apart[r.Row] = true
	}
	var groups [][]Row
	index := map[string]int{}
	for i, content := range rows {
		row := Row(i)
		if apart[row] {
			continue
		}
		key := g.key(content)
		at, ok := index[key]
		if !ok {
			at = len(groups)
			index[key] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], row)
	}
	order := make([]byte, 0, 2*len(rows))
	for _, group := range groups {
		for i, row := range group {
			place := uint16(row)
			if i%g.most == 0 {
				place |= pieceMark
			}
			order = binary.BigEndian.AppendUint16(order, place)
		}
	}
	for _, r := range settled {
		order = binary.BigEndian.AppendUint16(order, uint16(r.Row)|pieceMark)
	}
	return order
}
