package intake

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// split is a record as the splitter gives it.
type split struct {
	Cells  []string
	Line   int
	Broken string
	Text   string
}

// records splits text; stepwise takes every byte through the states.
func records(t *testing.T, text string, stepwise bool) []split {
	t.Helper()
	s := &cellSplitter{in: bufio.NewReaderSize(strings.NewReader(text), 16), number: 1, stepwise: stepwise}
	var all []split
	for {
		cells, line, broken, err := s.record()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, split{cells, line, broken, string(s.text())})
	}
}

// FuzzPlainLines holds that a line which is split at its commas is split as it
// would be byte by byte.
func FuzzPlainLines(f *testing.F) {
	f.Add("a,b\r\n,\n\n \"x\"\n\"a\nb\",c\r\r\nlast,")
	f.Add("a\"b\nc,\"d\"\"\"\n\"open\nto the end")
	f.Add("longer than what is buffered,\n\r\nx\r")
	f.Fuzz(func(t *testing.T, text string) {
		if diff := cmp.Diff(records(t, text, true), records(t, text, false)); diff != "" {
			t.Fatalf("%q (-byte by byte +line by line):\n%s", text, diff)
		}
	})
}
