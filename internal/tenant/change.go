package tenant

import (
	"crypto/sha256"
	"os"
	"reflect"
)

// Same reports whether a worker can continue with t when the settings are read as other: all
// members are the same, and so are the files of [Settings.DigestFiles].
func (t Settings) Same(other Settings) bool {
	a := t
	b := other
	a.Derived = Derived{}
	b.Derived = Derived{}
	return reflect.DeepEqual(a, b) && t.Files == other.Files
}

// DigestFiles returns a digest of the present content of the files that are read with the settings
// only: certificate authorities and webhooks. Secrets and keys are read again when they are used.
func (t Settings) DigestFiles() string { return Digest(t.CAFile, t.Webhooks) }

// Digest returns a digest of the content of files. One that cannot be read, such as "", counts as
// missing.
func Digest(paths ...string) string {
	var sums [][sha256.Size]byte
	for _, path := range paths {
		content, err := os.ReadFile(path)
		sum := sha256.Sum256(content)
		if err != nil {
			sum = [sha256.Size]byte{}
		}
		sums = append(sums, sum)
	}
	return digestOf(sums...)
}
