package sandbox

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// names makes identifiers in the forms that the service was observed to use, the same ones
// for the same seed and order of calls.
type names struct {
	*rand.Rand

	counted atomic.Int64
}

func newNames(seed uint64) *names {
	return &names{Rand: rand.New(&lockedSource{source: rand.NewPCG(seed, 0x6f72676f7073)})} // names, not secrets
}

// lockedSource makes a Rand safe for concurrent use: it has no other state.
type lockedSource struct {
	mu     sync.Mutex
	source rand.Source
}

func (l *lockedSource) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	hexadecimal  = "0123456789abcdef"
)

func (n *names) text(alphabet string, length int) string {
	b := make([]byte, length)
	for i := range b {
		b[i] = alphabet[n.IntN(len(alphabet))]
	}
	return string(b)
}

func (n *names) organization() string { return "org_" + n.text(alphanumeric, 16) }
func (n *names) domain() string       { return "ord_" + n.text(alphanumeric, 22) }
func (n *names) client() string       { return n.text(alphanumeric, 32) }
func (n *names) token() string        { return n.text(hexadecimal, 32) }

func (n *names) count() int { return int(n.counted.Add(1)) }

func templateID(number int) string { return fmt.Sprintf("vct_%016d", number) }
