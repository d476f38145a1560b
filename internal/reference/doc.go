// Package reference compares the generated parts of the pages in docs/reference with
// the code, and writes them. Only tests import it.
package reference

//go:generate go test -p 1 -run ^TestReference orgops/internal/reference orgops/internal/metrics orgops/cmd/worker orgops/cmd/enqueue -update
