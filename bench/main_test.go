package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be started as the sandbox and as a producer, as
// the command starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == sandboxCommand || os.Args[1] == produceCommand) {
		main()
	}
	goleak.VerifyTestMain(m)
}
