package web_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orgops/internal/logtest"
	"orgops/internal/web"
)

var quiet = slog.New(slog.DiscardHandler)

// serve runs h on a port that the system chose and stops it with the test.
func serve(t *testing.T, h http.Handler) (addr string, client *http.Client) {
	t.Helper()
	url, _, stop, err := web.Serve(t.Context(), "127.0.0.1:0", nil, h, quiet)
	if err != nil {
		t.Fatal(err)
	}
	addr = strings.TrimPrefix(url, "http://")
	client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(func() {
		if err := stop(context.Background()); err != nil { //nolint:usetesting // the test's own context has ended here
			t.Errorf("stop: %v", err)
		}
	})
	return addr, client
}

func request(t *testing.T, client *http.Client, addr string, changes ...func(*http.Request)) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(r)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(read)
}

func TestServe(t *testing.T) {
	addr, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here")
	}))
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
		t.Errorf("address %q, want one with the port that was chosen", addr)
	}
	if status, body := request(t, client, addr); status != http.StatusOK || body != "here" {
		t.Errorf("answer %d %q, want 200 here", status, body)
	}
	if status, _ := request(t, client, addr, func(r *http.Request) {
		r.Header.Set("X-Long", strings.Repeat("x", 32<<10))
	}); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("32 KiB of headers: %d, want 431", status)
	}
}

// TestConnectionsAreBounded: beyond a thousand connections the one that has had no request for the
// longest time is closed, one with a request in progress is not, and new ones are served.
func TestConnectionsAreBounded(t *testing.T) {
	const bound = 1000
	entered, release := make(chan struct{}), make(chan struct{})
	addr, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "served")
	}))
	dial := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, path string) {
		t.Helper()
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
	}
	busy := dial()
	ask(busy, "/wait")
	<-entered
	oldest := dial()
	ask(oldest, "/")
	answer := make([]byte, 1024)
	if n, err := oldest.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "served") {
		t.Fatalf("%q, %v", answer[:n], err)
	}
	for range bound - 1 { // with the two others one too many
		dial()
	}
	_ = oldest.SetReadDeadline(time.Now().Add(time.Minute)) // before it is closed for being idle
	if n, err := oldest.Read(answer); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection has %q, %v, want its end", answer[:n], err)
	}
	if status, body := request(t, client, addr); status != http.StatusOK || body != "served" {
		t.Errorf("a new connection: %d %q", status, body)
	}
	close(release)
	if n, err := busy.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "served") {
		t.Errorf("the request in progress: %q, %v", answer[:n], err)
	}
}

func TestServeOnAnAddressInUse(t *testing.T) {
	addr, _ := serve(t, http.NotFoundHandler())
	_, _, _, err := web.Serve(t.Context(), addr, nil, http.NotFoundHandler(), quiet)
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v, want one that names %s", err, addr)
	}
}

func TestStopWaitsForRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	url, _, stop, err := web.Serve(t.Context(), "127.0.0.1:0", nil,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-release
			_, _ = io.WriteString(w, "finished")
		}), quiet)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		defer close(answer) // also if the request fails
		_, body := request(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
			strings.TrimPrefix(url, "http://"))
		answer <- body
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop(t.Context()) }()
	for err == nil { // until the stop has begun
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://")); err == nil {
			_ = conn.Close()
		}
	}
	close(release)
	if body := <-answer; body != "finished" {
		t.Errorf("answer %q, want the whole of it", body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := stop(t.Context()); err != nil {
		t.Errorf("stop again: %v", err)
	}
}

func TestStopCutsOffAtItsEnd(t *testing.T) {
	entered := make(chan struct{})
	url, _, stop, err := web.Serve(t.Context(), "127.0.0.1:0", nil,
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		}), quiet)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop with an ended context: %v, want context.Canceled", err)
	}
	if answer, err := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("an answer %q (%v) after the cut", answer, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStopEndsStreams checks that a handler learns of the stop, and that its context does not end
// with the server's, but keeps its values.
func TestStopEndsStreams(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	entered := make(chan struct{})
	url, _, stop, err := web.Serve(ctx, "127.0.0.1:0", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		close(entered)
		<-web.Stopping(r.Context())
		_, _ = fmt.Fprint(w, r.Context().Value(key{}), " ", r.Context().Err())
	}), quiet)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		_, body := request(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
			strings.TrimPrefix(url, "http://"))
		answer <- body
	}()
	<-entered
	if err := stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if body := <-answer; body != "kept <nil>" {
		t.Errorf("answer %q, want the value and no error", body)
	}
}

// certificate writes a certificate for 127.0.0.1 of that serial number.
func certificate(t *testing.T, certFile, keyFile string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
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
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := errors.Join(os.WriteFile(certFile, certPEM, 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

// TestCertificateEnd checks that a certificate that expires soon is warned of, once a day.
func TestCertificateEnd(t *testing.T) {
	dir, log := t.TempDir(), new(logtest.Buffer)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate(t, certFile, keyFile, 1) // it ends in an hour
	now := time.Now().Add(-15 * 24 * time.Hour)
	config, err := web.TLS(certFile, keyFile, slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {25 * time.Hour, 1}, {0, 1}, {24 * time.Hour, 2}, {14 * 24 * time.Hour, 3}} {
		now = now.Add(step.after)
		if _, err := config.GetCertificate(nil); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "has expired, or does soon"); n != step.want {
			t.Errorf("at %s: warned %d times, want %d:\n%s", now, n, step.want, log)
		}
	}
}

// TestTLS checks that a changed certificate is used, a certificate that is unusable is not, and TLS
// 1.1 is refused.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := web.TLS(certFile, keyFile, quiet, time.Now); err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("error %v of files that are not there, want one that names them", err)
	}
	first := certificate(t, certFile, keyFile, 1)
	now := time.Now()
	config, err := web.TLS(certFile, keyFile, quiet, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	url, _, stop, err := web.Serve(t.Context(), "127.0.0.1:0", config, http.NotFoundHandler(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	connect := func(config *tls.Config) error {
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	if err := connect(&tls.Config{RootCAs: first}); err != nil {
		t.Error(err)
	}
	if err := connect(&tls.Config{MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	second := certificate(t, certFile, keyFile, 2)
	now = now.Add(time.Minute)
	if err := connect(&tls.Config{RootCAs: second}); err != nil {
		t.Errorf("with the changed certificate: %v", err)
	}
	if err := os.WriteFile(keyFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if err := connect(&tls.Config{RootCAs: second}); err != nil {
		t.Errorf("after a key that is unusable: %v", err)
	}
}
