package ledger

import "encoding/binary"

// groupMark is set in the order of release for the first row of a group. A row has the
// other bits: [SegmentRows] is 1 << 13.
const groupMark = 1 << 15

// releaseOrder returns the order in which the rows of a segment are released, two bytes each:
// groups of rows with the same key, in the order of their first rows, and then the rows that are
// settled.
// It returns nil if there is no key: the order is that of the rows' numbers.
func releaseOrder(key func(row []byte) string, rows [][]byte, settled []RowResult) []byte {
	if key == nil {
		return nil
	}

	// The groups, without the rows that are settled.
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
		name := key(content)
		at, ok := index[name]
		if !ok {
			at = len(groups)
			index[name] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], row)
	}

	// Their rows, and then the others.
	order := make([]byte, 0, 2*len(rows))
	for _, group := range groups {
		for i, row := range group {
			place := uint16(row)
			if i == 0 {
				place |= groupMark
			}
			order = binary.BigEndian.AppendUint16(order, place)
		}
	}
	for _, r := range settled {
		order = binary.BigEndian.AppendUint16(order, uint16(r.Row)|groupMark)
	}
	return order
}
