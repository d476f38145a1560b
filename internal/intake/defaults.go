package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"orgops/tasks"
)

// defaults are the values of a command's flags for rows that do not say. They
// are part of what was asked for: they are stored with the rows, so that a row
// handed back is complete, and the same file with other flags is other content.
type defaults []defaultValue

// defaultValue is one of them.
type defaultValue struct {
	column string
	cell   string          // its value in CSV
	member json.RawMessage // and in JSON
}

// defaultsOf lists what is set.
func defaultsOf(d tasks.Defaults) defaults {
	var all defaults
	if d.Status != "" {
		all = append(all, defaultValue{"status", d.Status, jsonString(d.Status)})
	}
	if d.UseForDiscovery != nil {
		text := strconv.FormatBool(*d.UseForDiscovery)
		all = append(all, defaultValue{"use_for_organization_discovery", text, json.RawMessage(text)})
	}
	return all
}

// digest is that of the file with these values.
func (d defaults) digest(file string) string {
	if len(d) == 0 {
		return file
	}
	h := sha256.New()
	fmt.Fprintln(h, file)
	for _, v := range d {
		fmt.Fprintf(h, "%s=%s\n", v.column, v.cell)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// columns are the header with the columns of the values.
func (d defaults) columns(format string, header []string) []string {
	if format != FormatCSV {
		return header
	}
	all := slices.Clone(header)
	for _, v := range d {
		if !slices.Contains(all, v.column) {
			all = append(all, v.column)
		}
	}
	return all
}

// source is the record as it is stored; columns are those of d.columns.
func (d defaults) source(format string, columns []string, record Record) ([]byte, error) {
	if len(d) == 0 {
		return record.Source, nil
	}
	if format == FormatCSV {
		var cells []string
		if err := json.Unmarshal(record.Source, &cells); err != nil {
			return nil, fmt.Errorf("cells of a row: %w", err)
		}
		cells = append(cells, make([]string, max(0, len(columns)-len(cells)))...)
		for _, v := range d {
			if i := slices.Index(columns, v.column); cells[i] == "" {
				cells[i] = v.cell
			}
		}
		return json.Marshal(cells)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(record.Object, &members); err != nil {
		return nil, fmt.Errorf("members of a row: %w", err)
	}
	for _, v := range d {
		if given := string(members[v.column]); given == "" || given == `""` {
			members[v.column] = v.member
		}
	}
	return json.Marshal(members)
}
