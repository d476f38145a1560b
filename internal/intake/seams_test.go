package intake

import "orgops/tasks"

// Repeated is a duplicate as [FindDuplicates] tells it.
type Repeated struct{ Item, Same int64 }

// FindDuplicates looks for duplicates among rows, holding most in memory.
func FindDuplicates(most int, rows []tasks.Row) (all []Repeated, again int, d Duplicates, err error) {
	f := newDuplicateFinder(most)
	for i, row := range rows {
		if err := f.add(Record{Item: int64(i), Line: i + 2}, row); err != nil {
			return nil, 0, d, err
		}
	}
	if d, err = f.found(); err != nil {
		return nil, 0, d, err
	}
	for r, err := range d.inOrder() {
		if err != nil {
			return nil, 0, d, err
		}
		all = append(all, Repeated{r.item, r.same})
	}
	for _, err := range d.inOrder() { // it can be asked for again
		if err != nil {
			return nil, 0, d, err
		}
		again++
	}
	return all, again, d, d.close()
}
