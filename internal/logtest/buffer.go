// Package logtest has a buffer for logs and output of tests.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer is a buffer that can be read while other goroutines write to it. The zero value is
// empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer]. The error is always nil.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
