package httpapi_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/serving"
)

func TestNotThere(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		method, path string
		status       int
		problem      string
		allow        string
	}{
		{"GET", "/", 404, "not-found", ""},
		{"GET", "/v2/runs", 404, "not-found", ""},
		{"GET", "/v1/runs/a/b/c", 404, "not-found", ""},
		{"POST", "/v1/runs", 405, "method-not-allowed", "GET, HEAD"},
		{"DELETE", "/v1/runs/a", 405, "method-not-allowed", "GET, HEAD, POST"},
		{"GET", "/v1/runs/a/cancel", 405, "method-not-allowed", "POST"},
		{"BREW", "/healthz", 405, "method-not-allowed", "GET, HEAD"},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			got := w.do(call{method: test.method, path: test.path, token: billing})
			got.want(t, test.status, test.problem)
			if got.Header.Get("Allow") != test.allow {
				t.Errorf("Allow %q, want %q", got.Header.Get("Allow"), test.allow)
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	w := newWorld(t)
	ours := map[string]bool{}
	for _, given := range []string{"req-1.A_b", "", "has blank", "x\"y", strings.Repeat("x", 65)} {
		got := w.do(call{path: "/v1/runs", token: billing, header: http.Header{"X-Request-Id": {given}}})
		id := got.Header.Get("X-Request-Id")
		if given == "req-1.A_b" && id != given {
			t.Errorf("id %q, want the given one", id)
		}
		if given != "req-1.A_b" && (id == given || id == "" || ours[id]) {
			t.Errorf("for %q the id is %q, want a new one", given, id)
		}
		ours[id] = true
		w.eventually(func() bool { return strings.Contains(w.log.String(), "request_id="+id) })
	}
}

func TestHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/v1/runs", "/nothing"} {
		got := w.do(call{path: path, token: billing})
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %s %q, want %q", path, name, got.Header.Get(name), want)
			}
		}
	}
}

// TestLog holds what a request leaves in the log, and what it does not.
func TestLog(t *testing.T) {
	w := newWorld(t)
	const secret = "hunter2"
	got := w.do(call{
		method: "POST", path: "/v1/runs/domain:verify?label=" + secret, token: billing, key: secret, body: rows(1),
		header: http.Header{"X-Request-Id": {"the-request"}},
	})
	got.want(t, 202, "")
	w.do(call{path: "/" + secret + "?token=" + secret, token: billing}).want(t, 404, "not-found")
	w.do(call{path: "/v1/runs/x?" + secret + "=1", token: billing}).want(t, 400, "bad-request")
	w.eventually(func() bool { return strings.Count(w.log.String(), "msg=request ") == 3 })
	text := w.log.String()
	for _, want := range []string{`request_id=the-request method=POST route="POST /v1/runs/{run}" status=202`, "caller=billing", "run=" + got.run(t).Run, "problem=not-found"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
	for _, not := range []string{secret, billing, "org_0000000000000000"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in the log:\n%s", not, text)
		}
	}
}

func TestHugeHeader(t *testing.T) {
	w := newWorld(t)
	r := w.request(call{path: "/v1/runs", token: billing, header: http.Header{"X-Large": {strings.Repeat("x", 64<<10)}}})
	got, err := w.client.Do(r)
	if err != nil { // the server may have hung up before all of it was sent
		return
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", got.StatusCode)
	}
}

func TestRequestsAtOnce(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.Requests = 1 })
	u := w.upload("k").send(rows(manyRows))
	u.stored(1)
	w.do(call{path: "/v1/runs", token: billing}).want(t, 503, "busy")
	w.do(call{path: "/healthz"}).want(t, 200, "")
	u.answer().want(t, 202, "")
}

func TestPanic(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Ledger = nil })
	got := w.do(call{path: "/v1/runs/x", token: billing})
	got.want(t, 500, "internal")
	w.eventually(func() bool { return strings.Contains(w.log.String(), "panic=") })
	if !strings.Contains(w.log.String(), "status=500") {
		t.Errorf("the request is not in the log:\n%s", w.log.String())
	}
}

// TestStop holds that a request under way finishes, and a new one is not begun.
func TestStop(t *testing.T) {
	w := newWorld(t)
	u := w.upload("k").send(rows(manyRows))
	u.stored(1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		w.stop()
	}()
	w.eventually(func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	u.send("org_1,ord_1\n")
	got := u.answer()
	got.want(t, 202, "")
	<-stopped
	if r, err := w.ledger.Get(t.Context(), ledger.RunID(got.run(t).Run)); err != nil || r.Total() != manyRows+1 {
		t.Errorf("run %+v, %v; want %d rows", r, err, manyRows+1)
	}
}

// TestStopCutsOff holds that a request which does not end does not keep the
// server, and leaves nothing.
func TestStopCutsOff(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.Stop = time.Millisecond })
	u := w.upload("k").send(rows(manyRows))
	u.stored(1)
	w.stop()
	w.noRuns()
	u.cut()
	<-u.ended
	if u.err == nil {
		t.Errorf("it was answered: %d %s", u.got.StatusCode, u.got.body)
	}
	w.start()
	if r := w.sealed(w.submit("k", rows(manyRows)).Run); r.Total() != manyRows {
		t.Errorf("run %+v; want %d rows", r, manyRows)
	}
}

// certificate writes a certificate for 127.0.0.1 of that serial number.
func certificate(t *testing.T, certFile, keyFile string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// newCertificate returns a configuration with a certificate for 127.0.0.1.
func newCertificate(t *testing.T) (*tls.Config, *x509.Certificate) {
	t.Helper()
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	root := certificate(t, certFile, keyFile, 1)
	config, err := serving.TLS(certFile, keyFile, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return config, root
}

// overTLS ends the server and starts one with TLS.
func (w *world) overTLS(config *tls.Config, root *x509.Certificate) {
	w.t.Helper()
	w.stop()
	listener, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(httpapi.New(w.config), tls.NewListener(listener, config))
	w.url = "https://" + listener.Addr().String()
	w.trust(root)
}

// trust has the client trust a certificate alone.
func (w *world) trust(root *x509.Certificate) {
	pool := x509.NewCertPool()
	pool.AddCert(root)
	w.client.CloseIdleConnections()
	w.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := serving.TLS(certFile, keyFile, slog.New(slog.DiscardHandler), time.Now); err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("error %v of files that are not there, want one that names them", err)
	}
	root := certificate(t, certFile, keyFile, 1)
	now := time.Now()
	config, err := serving.TLS(certFile, keyFile, slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.overTLS(config, root)
	run := w.submit("k", rows(2000))
	if r := w.sealed(run.Run); r.Total() != 2000 {
		t.Errorf("run %+v, want 2000 rows", r)
	}
	got := w.do(call{path: "/v1/runs/" + run.Run, token: billing})
	got.want(t, 200, "")
	if got.ProtoMajor != 2 {
		t.Errorf("protocol %s, want HTTP/2", got.Proto)
	}
	addr := strings.TrimPrefix(w.url, "https://")
	if _, err := new(tls.Dialer).DialContext(t.Context(), "tcp", addr); err == nil {
		t.Error("a certificate that nobody signed was trusted")
	}
	old := tls.Dialer{Config: &tls.Config{MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}}
	if _, err := old.DialContext(t.Context(), "tcp", addr); err == nil {
		t.Error("TLS 1.1 is spoken")
	}

	w.trust(certificate(t, certFile, keyFile, 2))
	now = now.Add(time.Minute)
	w.do(call{path: "/v1/runs", token: billing}).want(t, 200, "")
	w.client.CloseIdleConnections()
}

// TestSlowHeader has a client send a part of a request's head, and no more; the
// server's own end does not wait for it.
func TestSlowHeader(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.Stop = time.Millisecond })
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /v1/runs HTTP/1.1\r\nHost: x\r\n")
	w.stop()
	if _, err := bufio.NewReader(c).ReadByte(); err == nil {
		t.Error("it is answered")
	}
}

// TestAllAtOnce has many callers do everything at once, for the race detector.
func TestAllAtOnce(t *testing.T) {
	w := newWorld(t)
	var callers sync.WaitGroup
	for i := range 6 {
		callers.Go(func() {
			run := w.submit(fmt.Sprint("k", i), rows(5))
			w.sealed(run.Run)
			w.settle(run.Run, "done", "", 0, 1)
			w.do(call{path: "/v1/runs", token: billing}).want(t, 200, "")
			w.do(call{path: "/v1/runs/" + run.Run + "/failed", token: billing}).want(t, 200, "")
			w.do(call{method: "POST", path: "/v1/runs/" + run.Run + "/cancel", token: billing}).want(t, 200, "")
			w.do(call{path: "/v1/runs/" + run.Run + "/events", token: billing}).want(t, 200, "")
			w.do(call{method: "POST", path: "/v1/runs/" + run.Run + "/retry", token: billing, key: fmt.Sprint("r", i)}).want(t, 202, "")
		})
	}
	callers.Wait()
	all, _, err := w.ledger.Page(t.Context(), runs.Query{Match: func(r ledger.Run) bool { return r.Caller == "billing" }, Limit: 100})
	if err != nil || len(all) != 12 {
		t.Errorf("%d runs, %v; want 12", len(all), err)
	}
}
