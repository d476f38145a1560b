package sandbox_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"orgops/internal/sandbox"
)

// The vendor's own clients have no other scheme than https, in the API's address and in the
// audience of tokens.
func TestOverTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	s := start(t, sandbox.Options{CAFile: file})
	if !strings.HasPrefix(s.BaseURL(), "https://127.0.0.1:") || !strings.HasPrefix(s.AuthURL(), "https://") {
		t.Fatalf("the API is at %s, tokens at %s", s.BaseURL(), s.AuthURL())
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	trusting := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request := func(method, url, body, token string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", asForm)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return trusting.Do(r)
	}

	// The token of the https audience is taken, by each name of this machine.
	for _, origin := range []string{s.AuthURL(), strings.Replace(s.AuthURL(), "127.0.0.1", "localhost", 1)} {
		form := credentials(s)
		form.Set("audience", origin+"/api/v2/")
		answer, err := request(http.MethodPost, origin+"/oauth/token", form.Encode(), "")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("token of %s: %s", origin, answer.Status)
		}
	}
	answer, err := request(http.MethodGet, s.BaseURL()+"/organizations", "", s.Token())
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("organizations: %s", answer.Status)
	}

	// A lost connection ends by a reset, as without TLS, and not by TLS' own farewell.
	s.AddFault(sandbox.Fault{DropAfter: true})
	answer, err = request(http.MethodGet, s.BaseURL()+"/organizations", "", s.Token())
	if err == nil {
		_ = answer.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a dropped answer: %v, want a reset", err)
	}
}

func TestCertificateThatCannotBeWritten(t *testing.T) {
	_, err := sandbox.Start(sandbox.Options{CAFile: filepath.Join(t.TempDir(), "missing", "ca.pem")})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "certificate of the API") {
		t.Errorf("got %v", err)
	}
}
