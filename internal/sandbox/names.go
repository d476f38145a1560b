package sandbox

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// names makes identifiers in the shapes that the service was seen to use, the
// same ones for the same seed and order of asking.
type names struct {
	mu      sync.Mutex
	random  *rand.Rand
	counted int
}

func newNames(seed uint64) *names {
	return &names{random: rand.New(rand.NewPCG(seed, 0x6f72676f7073))} // names, not secrets
}

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	hexadecimal  = "0123456789abcdef"
)

func (n *names) text(alphabet string, length int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := make([]byte, length)
	for i := range b {
		b[i] = alphabet[n.random.IntN(len(alphabet))]
	}
	return string(b)
}

func (n *names) organization() string { return "org_" + n.text(alphanumeric, 16) }
func (n *names) domain() string       { return "ord_" + n.text(alphanumeric, 22) }
func (n *names) client() string       { return n.text(alphanumeric, 32) }
func (n *names) token() string        { return n.text(hexadecimal, 32) }

// count is a number that was not given before, from 1.
func (n *names) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counted++
	return n.counted
}

// number is one from 0 on that is below that.
func (n *names) number(below int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(below)
}

// share is a number from 0 up to below 1.
func (n *names) share() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.Float64()
}

// shuffle is rand.Shuffle from the same source.
func (n *names) shuffle(length int, swap func(i, j int)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.random.Shuffle(length, swap)
}

func templateID(number int) string { return fmt.Sprintf("vct_%016d", number) }
