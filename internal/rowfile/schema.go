package rowfile

import (
	"slices"
	"strings"

	"orgops/tasks"
)

// Schema says which rows are expected.
type Schema struct {
	// Columns are CSV columns and, by the same names, JSON members. Text is any text without
	// NUL: a CSV cell, or a JSON string, without the blanks around it unless the column is Exact.
	// Bool is true or false, in any case, or another of words. A required column must be in the
	// header, and have a value that is not empty in every row.
	Columns []tasks.Column
	// Object means that each line of JSON is one whole object, which is returned
	// unchanged and unchecked; Columns is ignored and CSV is refused.
	Object bool
	// Ignore names columns, or members, that are left out of the rows.
	Ignore []string
}

// SchemaOf returns the schema of a kind's rows.
func SchemaOf(k tasks.Kind) Schema { return Schema{Object: k.WholeObject, Columns: k.Columns} }

// leftOut reports whether the caller has the column of that name ignored. Columns that begin
// with orgops_ are ignored too, but are columns of the run.
func (s Schema) leftOut(name string) bool { return slices.Contains(s.Ignore, name) }

// Prefix begins the names of columns and members that an export adds to the rows. A reader ignores
// them, so that an exported file can be submitted unchanged. In CSV they also mean that cells were
// made inert, which is undone.
const Prefix = "orgops_"

// ErrorName is the column or member with the reason of a row that is bad, or has failed.
const ErrorName = Prefix + "error"

func ignored(name string) bool { return strings.HasPrefix(name, Prefix) }

// Columns of an export about records that were not found, as letters to customers need them: the
// record to publish, the values found, the remedy, and the name of the mistake. Rows may have
// columns of these names themselves, so they are ignored only in an exported file.
const (
	DomainName  = "domain"
	HostName    = "host"
	ValueName   = "value"
	FoundName   = "found"
	AdviceName  = "advice"
	MistakeName = "mistake"
)

// AdviceNames returns these columns, in the order of an export.
func AdviceNames() []string {
	return []string{DomainName, HostName, ValueName, FoundName, AdviceName, MistakeName}
}

// added reports whether an export added the column or member of that name. exported says that the
// file has a column that only an export adds.
func (s Schema) added(name string, exported bool) bool {
	if ignored(name) {
		return true
	}
	return exported && !s.Object && s.place(name) < 0 && slices.Contains(AdviceNames(), name)
}

// names returns the names of the columns.
func (s Schema) names() (all []string) {
	for _, c := range s.Columns {
		all = append(all, c.Name)
	}
	return all
}

// place returns the index of the column of that name, or -1.
func (s Schema) place(name string) int {
	return slices.IndexFunc(s.Columns, func(c tasks.Column) bool { return c.Name == name })
}

// Expected returns the columns as a usage line does: required ones first, then
// the optional ones in brackets.
func (s Schema) Expected() string {
	if s.Object {
		return "one JSON object a line"
	}
	return tasks.Usage(s.Columns)
}

// missing returns an error for each required column without a value.
func (s Schema) missing(values []string) []string {
	var broken []string
	for i, c := range s.Columns {
		if c.Required && values[i] == "" && (c.Or == "" || values[s.place(c.Or)] == "") {
			broken = append(broken, c.Name+" is missing")
		}
	}
	return broken
}
