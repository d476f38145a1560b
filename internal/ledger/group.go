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

// order returns the order in which the rows of a segment are released, two bytes each:
// groups in the order of their first rows, each cut into pieces of at most most rows. Last
// come rows that are settled. It returns nil if rows are not grouped: then the order is
// that of their numbers.
func (g grouping) order(rows [][]byte, settled []rowResult) []byte {
	if g.key == nil || g.most <= 1 {
		return nil
	}
	done := make(map[Row]bool, len(settled))
	for _, r := range settled {
		done[r.Row] = true
	}
	groups, last := g.groups(rows, done)
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
	for _, row := range last {
		order = binary.BigEndian.AppendUint16(order, uint16(row)|pieceMark)
	}
	return order
}

// groups returns the open rows by group, and the settled rows.
func (g grouping) groups(rows [][]byte, done map[Row]bool) (groups [][]Row, settled []Row) {
	index := map[string]int{}
	for i, content := range rows {
		row := Row(i)
		if done[row] {
			settled = append(settled, row)
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
	return groups, settled
}
