// Package runs has other names of the ledger's.
package runs

import "orgops/internal/ledger"

const MaxRows = ledger.MaxRows

type (
	Ledger     = ledger.Ledger
	Query      = ledger.Query
	Place      = ledger.Place
	OpenCounts = ledger.OpenCounts
)

var (
	New        = ledger.New
	ParsePlace = ledger.ParsePlace
)
