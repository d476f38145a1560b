package reference

import (
	"regexp"
	"slices"
	"strings"
)

// Table returns a table in Markdown, without the columns that are empty in all rows.
func Table(header []string, rows [][]string) string {
	var titles, rule string
	lines := make([]string, len(rows))
	for column, title := range header {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" }) {
			continue
		}
		titles += "| " + title + " "
		rule += "|---"
		for i, row := range rows {
			lines[i] += "| " + strings.ReplaceAll(row[column], "\n", " ") + " "
		}
	}
	return titles + "|\n" + rule + "|\n" + strings.Join(lines, "|\n") + "|\n"
}

var (
	special = strings.NewReplacer("*", `\*`, "<", `\<`, "|", `\|`)
	typed   = regexp.MustCompile(`\$?ORGOPS_[A-Z0-9_]+|--[a-z][a-z-]*[a-z]`)
)

// Prose returns a text of the code in Markdown: its flags and variables as code, and
// nothing taken for Markdown's own. Indented lines are examples, which Markdown shows as
// they are.
func Prose(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "    ") {
			lines[i] = typed.ReplaceAllStringFunc(special.Replace(line), func(name string) string {
				return Code(strings.TrimPrefix(name, "$"))
			})
		}
	}
	return strings.Join(lines, "\n")
}

// Code returns a text as code in a table; an empty one as it is.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}
