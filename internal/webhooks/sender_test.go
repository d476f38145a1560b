package webhooks_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/internal/webhooks"
)

var attemptAt = time.Unix(1795305600, 0)

const body = `{"type":"domain.lost","timestamp":"2026-11-22T00:00:00Z","data":{"tenant":"default"}}`

// endpointAt returns an endpoint "crm" at the URL that may be on loopback.
func endpointAt(t *testing.T, url, secrets string) []webhooks.Endpoint {
	t.Helper()
	return read(t, "endpoints: [{name: crm, url: '"+url+"', secret_env: HOOK, allow_private: true}]",
		map[string]string{"HOOK": secrets})
}

func newSender(t *testing.T, c webhooks.Config) *webhooks.Sender {
	t.Helper()
	c.UserAgent = "orgops/test"
	s, err := webhooks.NewSender(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// receiver starts an HTTPS server on loopback. It returns its URL and the certificates to
// trust.
func receiver(t *testing.T, answer http.HandlerFunc) (url string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, roots
}

// verified verifies a request by the specification of the scheme: one of the signatures must
// match the secret, and the time of the attempt must be near now.
func verified(header http.Header, body []byte, secret string, now time.Time) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		return err
	}
	if apart := now.Sub(time.Unix(seconds, 0)).Abs(); apart > 5*time.Minute {
		return fmt.Errorf("%s apart", apart)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", header.Get("webhook-id"), seconds)
	mac.Write(body)
	for signature := range strings.SplitSeq(header.Get("webhook-signature"), " ") {
		value, ok := strings.CutPrefix(signature, "v1,")
		sum, err := base64.StdEncoding.DecodeString(value)
		if ok && err == nil && hmac.Equal(sum, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("no signature is that of the key")
}

// TestDelivery checks the request that a receiver gets, signed with both secrets.
func TestDelivery(t *testing.T) {
	type request struct{ Method, Path, Proto, Type, Agent, ID, At, Body string }
	got := make(chan request, 1)
	headers := make(chan http.Header, 1)
	at, roots := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- request{
			r.Method, r.URL.RequestURI(), r.Proto, r.Header.Get("Content-Type"), r.Header.Get("User-Agent"),
			r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), string(text),
		}
		headers <- r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, at+"/hooks?token=x", secret+" "+otherSecret),
		RootCAs: roots})
	if err := s.Deliver(t.Context(), "crm", "domain:verify-run-3", attemptAt, []byte(body)); err != nil {
		t.Fatal(err)
	}
	want := request{"POST", "/hooks?token=x", "HTTP/1.1", "application/json", "orgops/test",
		"domain:verify-run-3", "1795305600", body}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	header := <-headers
	for _, one := range []string{secret, otherSecret} {
		if err := verified(header, []byte(body), one, attemptAt); err != nil {
			t.Errorf("signature of %s: %v", one, err)
		}
		if err := verified(header, []byte(body+" "), one, attemptAt); err == nil {
			t.Error("a changed body passes")
		}
	}
	if err := verified(header, []byte(body), "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 24)),
		attemptAt); err == nil {
		t.Error("another secret passes")
	}
	if n := len(strings.Fields(header.Get("webhook-signature"))); n != 2 {
		t.Errorf("%d signatures, want 2", n)
	}
	if python, err := exec.LookPath("python3"); err == nil {
		verifiedByPython(t, python, header, body)
	}
}

// verifiedByPython verifies the signature with an independent implementation.
func verifiedByPython(t *testing.T, python string, header http.Header, body string) {
	t.Helper()
	const program = `
import base64, hashlib, hmac, sys
id, at, body, secret = sys.argv[1:]
key = base64.b64decode(secret.removeprefix("whsec_"))
print("v1," + base64.b64encode(hmac.new(key, f"{id}.{at}.{body}".encode(), hashlib.sha256).digest()).decode(), end="")
`
	for i, one := range []string{secret, otherSecret} {
		out, err := exec.CommandContext(t.Context(), python, "-c", program, header.Get("webhook-id"),
			header.Get("webhook-timestamp"), body, one).CombinedOutput()
		if err != nil {
			t.Fatalf("python3: %v: %s", err, out)
		}
		if got := strings.Fields(header.Get("webhook-signature"))[i]; got != string(out) {
			t.Errorf("signature %s, python has %s", got, out)
		}
	}
}

// TestPublishedSignature verifies the example of the scheme's libraries.
func TestPublishedSignature(t *testing.T) {
	headers := make(chan http.Header, 1)
	at, roots := receiver(t, func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header })
	s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, at, secret), RootCAs: roots})
	err := s.Deliver(t.Context(), "crm", "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0),
		[]byte(`{"test": 2432232314}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := (<-headers).Get("webhook-signature"); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

// TestSecretsAreReplacedWithoutARestart checks that each delivery reads the file.
func TestSecretsAreReplacedWithoutARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(secret + "\n")
	headers := make(chan http.Header, 2)
	at, roots := receiver(t, func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header })
	all := read(t, "endpoints: [{name: crm, url: '"+at+"', secret_file: '"+file+"', allow_private: true}]", nil)
	s := newSender(t, webhooks.Config{Endpoints: all, RootCAs: roots})
	for _, one := range []string{secret, otherSecret} {
		put(one)
		if err := s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := verified(<-headers, []byte(body), one, attemptAt); err != nil {
			t.Error(err)
		}
	}
	put("canary-canary")
	failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)))
	if failure.Permanent || strings.Contains(failure.Error(), "canary") {
		t.Errorf("permanent %t: %v", failure.Permanent, failure)
	}
}

// failed returns the error of a failed attempt.
func failed(t *testing.T, err error) *webhooks.DeliveryError {
	t.Helper()
	failure, ok := errors.AsType[*webhooks.DeliveryError](err)
	if !ok {
		t.Fatalf("error %v, want a DeliveryError", err)
	}
	return failure
}

func TestAnswers(t *testing.T) {
	date := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	type said struct {
		Status     int
		RetryAfter time.Duration
		Permanent  bool
		Text       string
	}
	for _, c := range []struct {
		name       string
		status     int
		retryAfter string
		text       string
		want       *said
	}{
		{"200", 200, "", "ok", nil},
		{"201", 201, "", "", nil},
		{"204", 204, "", "", nil},
		{"299", 299, "", "", nil},
		{
			"301", 301, "", "", &said{
				301, 0, false, "301 Moved Permanently: redirects are not followed; put the new address into the file",
			},
		},
		{
			"304", 304, "", "", &said{
				304, 0, false, "304 Not Modified: redirects are not followed; put the new address into the file",
			},
		},
		{"400", 400, "", " bad\r\n\x1b[31m request\n", &said{400, 0, false, `400 Bad Request: "bad\r\n\x1b[31m request"`}},
		{"401", 401, "", "", &said{401, 0, false, "401 Unauthorized"}},
		{"404", 404, "", "Cannot POST /hooks/very-long-path-token?token=canary",
			&said{404, 0, false, `404 Not Found: "Cannot POST /hooks/[hidden]?[hidden]"`}},
		{
			"410", 410, "", "", &said{
				410, 0, true, "410 Gone: the receiver wants no more events; remove the endpoint from the file",
			},
		},
		{"422", 422, "", "no such key: " + secret + ", " + secret[6:],
			&said{422, 0, false, `422 Unprocessable Entity: "no such key: [hidden], [hidden]"`}},
		{"429", 429, "7", "", &said{429, 7 * time.Second, false, "429 Too Many Requests"}},
		{"429 until", 429, date.Add(90 * time.Second).Format(http.TimeFormat), "",
			&said{429, 90 * time.Second, false, "429 Too Many Requests"}},
		{"429 for a year", 429, "31536000", "", &said{429, 24 * time.Hour, false, "429 Too Many Requests"}},
		{"429 for nonsense", 429, "soon", "", &said{429, 0, false, "429 Too Many Requests"}},
		{
			"500", 500, "", strings.Repeat("ä", 1000), &said{500, 0, false,
				`500 Internal Server Error: "` + strings.Repeat("ä", 200) + `"…`},
		},
		{"503", 503, "120", "", &said{503, 2 * time.Minute, false, "503 Service Unavailable"}},
		{"599", 599, "", "", &said{599, 0, false, "599"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, roots := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", date.Format(http.TimeFormat))
				w.Header().Set("Location", "https://127.0.0.1:1/canary")
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.text)
			})
			s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, at+"/hooks/very-long-path-token?token=canary", secret),
				RootCAs: roots})
			err := s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body))
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			failure := failed(t, err)
			got := said{failure.Status, failure.RetryAfter, failure.Permanent,
				strings.TrimPrefix(failure.Error(), "webhook endpoint crm: "+at+" answered ")}
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRedirectsAreNotFollowed checks that the target of a redirect receives no request.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var inside atomic.Int64
	secretPlace := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(secretPlace.Close)
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", secretPlace.URL} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			at, roots := receiver(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, status) })
			s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, at, secret), RootCAs: roots})
			if failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body))); failure.Status != status ||
				failure.Permanent {
				t.Errorf("%d to %s: status %d, permanent %t", status, to, failure.Status, failure.Permanent)
			}
		}
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// piped serves all connections with serve, without a network: virtual time advances only while
// all goroutines wait.
func piped(t *testing.T, serve func(net.Conn)) (connects *atomic.Int64) {
	t.Helper()
	connects = new(atomic.Int64)
	webhooks.SetDial(t, func(context.Context, string, string) (net.Conn, error) {
		connects.Add(1)
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if request, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
				serve(theirs)
			}
		}()
		return ours, nil
	})
	return connects
}

// untilClosed waits until the other side has had enough.
func untilClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestHostileReceivers checks that no receiver makes an attempt exceed its timeout, or use
// more memory than a few responses.
func TestHostileReceivers(t *testing.T) {
	forever := func(conn net.Conn, piece string) {
		for {
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		want  string // of the error; empty: delivered
	}{
		{"hangs", untilClosed, "no answer within 15s"},
		{"closes", func(net.Conn) {}, "EOF"},
		{"header without end", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			forever(conn, "X-A: b\r\n")
		}, "net/http: server response headers exceeded 65536 bytes; aborted"},
		{"header by and by", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: ")
			untilClosed(conn)
		}, "no answer within 15s"},
		{"early hints without end", func(conn net.Conn) { forever(conn, "HTTP/1.1 103 Early Hints\r\n\r\n") },
			"server response headers exceeded 65536 bytes; aborted"},
		{"body without end", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			forever(conn, strings.Repeat("x", 4096))
		}, ""},
		{"body by and by", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nx")
			untilClosed(conn)
		}, ""},
		{"error page by and by", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 500 Oh\r\n\r\nx")
			untilClosed(conn)
		}, `answered 500 Internal Server Error: "x"`},
		{"bomb", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 500 Oh\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00")
		}, `answered 500 Internal Server Error: "\x1f\x8b\b\x00\x00\x00\x00\x00"`},
		{"not HTTP", func(conn net.Conn) { _, _ = io.WriteString(conn, "\x1b[31mSSH-2.0\r\n\r\n") },
			`malformed HTTP response`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				piped(t, c.serve)
				s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, "http://127.0.0.1:1/?token=canary", secret)})
				start := time.Now()
				err := s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body))
				if took := time.Since(start); took > time.Second && (c.want == "" || strings.Contains(c.want, "answered")) {
					t.Errorf("the body of an answer was read for %v of the bubble's time", took)
				}
				if c.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				failure := failed(t, err)
				if !strings.Contains(failure.Error(), c.want) || failure.Permanent || strings.Contains(failure.Error(), "canary") ||
					strings.Contains(failure.Error(), "\x1b") {
					t.Errorf("permanent %t: %v; want %s", failure.Permanent, failure, c.want)
				}
			})
		})
	}
}

// TestErrorsOfUnreachableReceivers checks the errors of a refused connection and of an unknown
// name.
func TestErrorsOfUnreachableReceivers(t *testing.T) {
	const at = "127.0.0.1:1" // given to no process, unlike a port that was closed a moment ago
	s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, "https://"+at+"/?token=canary", secret)})
	failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)))
	if want := "webhook endpoint crm: https://" + at + ": dial tcp " + at +
		": connect: connection refused"; failure.Error() != want || failure.Permanent {
		t.Errorf("permanent %t: %v\nwant %s", failure.Permanent, failure, want)
	}
}

// TestUntrustedCertificate checks that a receiver without a trusted certificate gets no
// request.
func TestUntrustedCertificate(t *testing.T) {
	var got atomic.Int64
	at, _ := receiver(t, func(http.ResponseWriter, *http.Request) { got.Add(1) })
	s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, at, secret), RootCAs: x509.NewCertPool()})
	failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)))
	if failure.Permanent || got.Load() != 0 || !strings.Contains(failure.Error(), "certificate") ||
		!strings.Contains(failure.Error(), "SSL_CERT_DIR) and those of --ca-file") {
		t.Errorf("permanent %t, %d delivered: %v", failure.Permanent, got.Load(), failure)
	}
}

// TestReach checks that a receiver is reported as reached only if a delivery would send its
// request.
func TestReach(t *testing.T) {
	at, roots := receiver(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	e := endpointAt(t, at+"/?token=canary", secret)[0]
	if err := e.Reach(t.Context(), roots); err != nil {
		t.Errorf("a trusted certificate: %v", err)
	}
	err := e.Reach(t.Context(), x509.NewCertPool())
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "canary") ||
		!strings.Contains(err.Error(), "SSL_CERT_DIR) and those of --ca-file") {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}

// names returns a resolver that answers a name with the addresses of each answer in turn, and
// with those of the last one from then on.
func names(t *testing.T, answers ...[]string) *net.Resolver {
	t.Helper()
	var asked atomic.Int64
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			reply := new(dns.Msg).SetReply(q)
			if q.Question[0].Qtype == dns.TypeA {
				n := int(asked.Add(1)) - 1
				for _, addr := range answers[min(n, len(answers)-1)] {
					reply.Answer = append(reply.Answer,
						&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
							A: net.ParseIP(addr)})
				}
			}
			_ = w.WriteMsg(reply)
		})}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown(); <-stopped })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// at127 starts a server on a loopback address, on a free port or the given one, and counts its
// connections.
func at127(t *testing.T, address string) (string, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no second address of loopback here: %v", err)
	}
	connected := new(atomic.Int64)
	done := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, connected
}

const notAllowed = "all addresses of the host are loopback, link-local, private or reserved: set allow_private to permit them (for http: only loopback)"

// TestPrivateAddressesBehindNames has public names with private addresses.
func TestPrivateAddressesBehindNames(t *testing.T) {
	port, connected := at127(t, "127.0.0.1:0")
	for _, address := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "0.0.0.0",
		"100.64.0.1", "168.63.129.16"} {
		all := read(t, "endpoints: [{name: crm, url: 'https://crm.example.com:"+port+"/', secret_env: HOOK}]",
			map[string]string{"HOOK": secret})
		webhooks.SetResolver(t, names(t, []string{address}))
		s := newSender(t, webhooks.Config{Endpoints: all})
		failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)))
		if want := "webhook endpoint crm: https://crm.example.com:" + port + ": " + notAllowed; failure.Error() != want ||
			failure.Permanent {
			t.Errorf("%s: permanent %t: %v\nwant %s", address, failure.Permanent, failure, want)
		}
	}
	if n := connected.Load(); n != 0 {
		t.Errorf("connected %d times", n)
	}
}

// TestNamesThatChange checks that the address of the connection counts. 127.0.0.2 represents a
// public address, and 127.0.0.3 one without a listener.
func TestNamesThatChange(t *testing.T) {
	webhooks.SetPublic(t, func(a netip.Addr) bool { return a.String() == "127.0.0.2" || a.String() == "127.0.0.3" })
	port, outside := at127(t, "127.0.0.2:0")
	_, inside := at127(t, "127.0.0.1:"+port)
	all := read(t, "endpoints: [{name: crm, url: 'https://crm.example.com:"+port+"/', secret_env: HOOK}]",
		map[string]string{"HOOK": secret})
	for _, c := range []struct {
		name    string
		answers [][]string
		refused []bool
	}{
		{"public, then private", [][]string{{"127.0.0.2"}, {"127.0.0.1"}}, []bool{false, true}},
		{"private, then public", [][]string{{"127.0.0.1"}, {"127.0.0.2"}}, []bool{true, false}},
		{"both at a time", [][]string{{"127.0.0.1", "127.0.0.2"}}, []bool{false}},
		{"both, and nobody there", [][]string{{"127.0.0.1", "127.0.0.3"}, {"127.0.0.2"}}, []bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := outside.Load()
			webhooks.SetResolver(t, names(t, c.answers...))
			for i, refused := range c.refused {
				// One each: an attempt without an answer delays the next one.
				s := newSender(t, webhooks.Config{Endpoints: all})
				failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)))
				if failure.Permanent || strings.Contains(failure.Error(), notAllowed) != refused {
					t.Errorf("attempt %d: permanent %t: %v; want it refused: %t", i+1, failure.Permanent, failure, refused)
				}
			}
			if outside.Load() == before {
				t.Error("the public address was not connected to")
			}
		})
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("the private address was connected to %d times", n)
	}
}

// TestHTTPStaysOnLoopback has a name for this machine that resolves to another address.
func TestHTTPStaysOnLoopback(t *testing.T) {
	all := read(t, "endpoints: [{name: crm, url: 'http://crm.localhost:1/', secret_env: HOOK, allow_private: true}]",
		map[string]string{"HOOK": secret})
	webhooks.SetResolver(t, names(t, []string{"10.0.0.1"}))
	s := newSender(t, webhooks.Config{Endpoints: all})
	if failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body))); failure.Permanent ||
		!strings.Contains(failure.Error(), notAllowed) {
		t.Errorf("permanent %t: %v", failure.Permanent, failure)
	}
}

// TestProxy checks that a proxy on a private address is used, and receives the name of the
// endpoint. Its refusal does not read as the receiver's.
func TestProxy(t *testing.T) {
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		http.Error(w, "not here", http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	all := read(t, "endpoints: [{name: crm, url: 'https://crm.example.com/?token=canary', secret_env: HOOK}]",
		map[string]string{"HOOK": secret})
	through, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	through.User = url.UserPassword("user", "canary")
	s := newSender(t, webhooks.Config{Endpoints: all, Proxy: func(*url.URL) (*url.URL, error) { return through, nil }})
	failure := failed(t, s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body)))
	if got := <-asked; got != "CONNECT crm.example.com:443" {
		t.Errorf("the proxy was asked to %s", got)
	}
	if failure.Permanent || strings.Contains(failure.Error(), "canary") ||
		!strings.Contains(failure.Error(), "the proxy "+through.Host+" refused to connect: 403 Forbidden") {
		t.Errorf("permanent %t: %v", failure.Permanent, failure)
	}
}

// TestWhatIsNotSent checks that nothing is sent to unknown endpoints, or with IDs that would
// make the signed text ambiguous.
func TestWhatIsNotSent(t *testing.T) {
	s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, "https://127.0.0.1:1/", secret)})
	for _, c := range []struct {
		endpoint, id string
		permanent    bool
		want         string
	}{
		{
			"other", "id", false,
			"webhook endpoint other: this worker has no endpoint of that name: is it in the file that --webhooks names?",
		},
		{
			"crm", "a.1", true,
			`webhook endpoint crm: the event's id cannot be signed: want 1 to 255 of A-Z a-z 0-9 _ : | -, got "a.1"`,
		},
		{
			"crm", "a\r\nX: y", true,
			`webhook endpoint crm: the event's id cannot be signed: want 1 to 255 of A-Z a-z 0-9 _ : | -, got "a\r\nX: y"`,
		},
	} {
		failure := failed(t, s.Deliver(t.Context(), c.endpoint, c.id, attemptAt, []byte(body)))
		if failure.Error() != c.want || failure.Permanent != c.permanent {
			t.Errorf("permanent %t: %v; want %s", failure.Permanent, failure, c.want)
		}
	}
}

// TestSilentReceiversAreLeftAlone checks that of many deliveries to a hanging receiver one at
// a time is sent, and that all are sent when it is back.
func TestSilentReceiversAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		connects := piped(t, func(conn net.Conn) {
			if down.Load() {
				untilClosed(conn)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		})
		s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, "http://127.0.0.1:1/", secret)})
		deliver := func() *webhooks.DeliveryError {
			err := s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body))
			if err == nil {
				return nil
			}
			return failed(t, err)
		}
		// A rest begins after five failures in a row; concurrent ones are its beginning together.
		results := make(chan *webhooks.DeliveryError, 3)
		for range 4 {
			if failure := deliver(); failure.Unsent {
				t.Errorf("not sent after too few failures: %v", failure)
			}
		}
		for range 3 {
			go func() { results <- deliver() }()
		}
		for range 3 {
			if failure := <-results; failure.Unsent {
				t.Errorf("not sent although it was well: %v", failure)
			}
		}
		// Start three at a time, each after the delay of RetryAfter: one of them is sent.
		var rests []time.Duration
		for range 6 {
			failure := deliver()
			if !failure.Unsent || failure.RetryAfter <= 0 {
				t.Fatalf("sent to within its rest: %v", failure)
			}
			rests = append(rests, failure.RetryAfter)
			time.Sleep(failure.RetryAfter)
			before := connects.Load()
			for range 3 {
				go func() { results <- deliver() }()
			}
			sent := 0
			for range 3 {
				if failure := <-results; !failure.Unsent {
					sent++
				}
			}
			if sent != 1 || connects.Load() != before+1 {
				t.Errorf("%d of 3 sent, over %d connections", sent, connects.Load()-before)
			}
		}
		if want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute,
			time.Minute}; !slices.Equal(rests, want) {
			t.Errorf("rests %v, want %v", rests, want)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		for range 3 {
			if failure := deliver(); failure != nil {
				t.Errorf("it is back: %v", failure)
			}
		}
	})
}

// TestFlakyReceiversDoNotRest checks that a receiver of which one answer of four fails gets every
// attempt, since no five fail in a row.
func TestFlakyReceiversDoNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		piped(t, func(conn net.Conn) {
			status := "204 No Content"
			if attempts.Add(1)%4 == 0 {
				status = "503 Service Unavailable"
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		})
		s := newSender(t, webhooks.Config{Endpoints: endpointAt(t, "http://127.0.0.1:1/", secret)})
		for i := range 40 {
			err := s.Deliver(t.Context(), "crm", "id", attemptAt, []byte(body))
			if err != nil && failed(t, err).Unsent {
				t.Errorf("attempt %d was not sent: %v", i, err)
			}
		}
		if n := attempts.Load(); n != 40 {
			t.Errorf("%d attempts arrived, want 40", n)
		}
	})
}
