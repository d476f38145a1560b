package cli_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"orgops/apiclient"
	"orgops/internal/cli"
)

// inUTF16 returns a text as editors save it, with a byte-order mark.
func inUTF16(text string) string {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

// TestSecrets reads the same text from a file and from a variable. The characters that editors and
// shells leave around a secret are removed from both. Characters that no secret contains are an
// error.
func TestSecrets(t *testing.T) {
	const lines, encoding, bearer, token = "it has several lines, or characters that are not printable",
		"it is UTF-16, or no text", "it begins with Bearer", "it has blanks, quotes or characters that no token has"
	for _, tc := range []struct {
		name, text   string
		secret, kept string // the error of a secret and of a token, or else what is kept
		token        string
	}{
		{"plain", "s3cret", "", "s3cret", ""},
		{"a line end", "s3cret\n", "", "s3cret", ""},
		{"line ends of Windows and blanks", " \ts3cret \r\n\r\n", "", "s3cret", ""},
		{"a byte-order mark", "\ufeffs3cret\n", "", "s3cret", ""},
		{"base64", "s3-._~+/cret==\n", "", "s3-._~+/cret==", ""},
		{"UTF-16", inUTF16("s3cret\n"), encoding, "", encoding},
		{"white space alone", " \n", "it is empty", "", "it is empty"},
		{"two lines", "s3cret\ncanary", lines, "", token},
		{"a space that cannot be seen", "s3cret\u200b", lines, "", token},
		{"with its scheme", "Bearer s3cret\n", "", "Bearer s3cret", bearer},
		{"another case", "bearer s3cret", "", "bearer s3cret", bearer},
		{"quotes", `"s3cret"`, "", `"s3cret"`, token},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			check := func(what, got string, err error, want string) {
				t.Helper()
				switch {
				case want == "" && (err != nil || got != tc.kept && tc.secret == ""):
					t.Errorf("%s: %q, %v; want %q", what, got, err, tc.kept)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
					strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "canary")):
					t.Errorf("%s: %q, %v; want %q", what, got, err, want)
				}
			}
			for from, env := range map[string]map[string]string{"file": {"P_FILE": path}, "variable": {"P": tc.text}} {
				get := func(name string) string { return env[name] }
				got, err := cli.Secret(get, "P")
				check("password in a "+from, got, err, tc.secret)
				file, name := env["P_FILE"], ""
				if file == "" {
					name = "P"
				}
				secret, err := cli.FileOrEnv(get, file, name, "client secret", apiclient.ParseSecret)
				check("client secret in a "+from, secret.Reveal(), err, tc.secret)
				secret, err = cli.FileOrEnv(get, file, name, "token", apiclient.ParseToken)
				check("token in a "+from, secret.Reveal(), err, tc.token)
			}
		})
	}
}
