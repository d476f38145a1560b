package surface

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// users are those of the world's pages and APIs: name and entry of the access file.
var users = []struct{ name, entry string }{
	{"olga", `role: operator, tenants: ["*"]`},
	{"rita", `role: reader, tenants: ["*"]`},
	{"sam", `role: support, tenants: ["*"]`},
	{"lea", `role: operator, tenants: [quiet]`},
	{"shop", `role: submitter, tenants: [acme], kinds: ["*"]`},
	{"owner", `role: customer, tenants: [acme], organizations: [org_shop]`},
}

// Token returns the token of a user.
func Token(user string) string { return "orgops_" + fmt.Sprintf("%x", sha256.Sum256([]byte(user))) }

// AccessFile writes an access file with users of each role: olga, rita, sam, lea, shop and owner.
func AccessFile(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, u := range users {
		fmt.Fprintf(&text, "- {name: %s, sha256: %x, %s}\n", u.name, sha256.Sum256([]byte(Token(u.name))), u.entry)
	}
	file := filepath.Join(t.TempDir(), "access.yaml")
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}

// LinkKey writes a file with a key of links.
func LinkKey(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "link.key")
	must(t, os.WriteFile(file, []byte(strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600))
	return file
}
