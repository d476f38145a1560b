package apiclient_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

// short is a timeout that is meant to expire. No test measures it.
const short = 50 * time.Millisecond

// closedPort is an origin without a listener. A port that was just closed may belong to
// another process by now; no process gets this one.
const closedPort = "http://127.0.0.1:1"

// wire hands every connection to handle, with its number from 0, and closes it
// afterwards.
func wire(t *testing.T, handle func(n int, conn *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(n, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

func readRequest(conn net.Conn) (*http.Request, error) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

func endless(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		block := []byte(strings.Repeat(" ", 64<<10))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

func cutShort(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"id":`)
	}
}

func drip(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// get and create represent reads and POSTs, which differ most.
func get(ctx context.Context, c *apiclient.Client) error {
	_, err := c.DiscoveryDomain(ctx, orgID, domainID)
	return err
}

func create(ctx context.Context, c *apiclient.Client) error {
	_, err := c.CreateTemplate(ctx, goodTemplate(), nil)
	return err
}

func wantTransport(t *testing.T, err error, sent, timeout bool) {
	t.Helper()
	e, ok := errors.AsType[*apiclient.TransportError](err)
	if !ok {
		t.Fatalf("want a TransportError, got %T: %v", err, err)
	}
	if e.Sent != sent || e.Timeout() != timeout {
		t.Errorf("sent %v, timeout %v, want %v and %v: %v", e.Sent, e.Timeout(), sent, timeout, err)
	}
	if e.Operation == "" || e.Method == "" || e.Path == "" {
		t.Errorf("incomplete: %+v", e)
	}
	// No context ends in the tests that use this.
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("looks like the end of the caller's context: %v", err)
	}
}

func wantAnswer(t *testing.T, err error, text string) {
	t.Helper()
	_ = answerError(t, err, text)
}

func answerError(t *testing.T, err error, text string) *apiclient.AnswerError {
	t.Helper()
	e, ok := errors.AsType[*apiclient.AnswerError](err)
	if !ok {
		t.Fatalf("want an AnswerError, got %T: %v", err, err)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("want %q in %v", text, err)
	}
	if _, ok := errors.AsType[*schema.ValidationError](err); ok {
		t.Errorf("a wrong answer looks like a wrong request: %v", err)
	}
	return e
}

func TestConnectionRefused(t *testing.T) {
	for _, call := range []func(context.Context, *apiclient.Client) error{get, create} {
		err := call(t.Context(), newClient(t, closedPort))
		wantTransport(t, err, false, false)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the reason is not reached: %v", err)
		}
	}
}

func TestConnectTimeout(t *testing.T) {
	// A listener whose queue is full does not answer on some systems only. A TLS handshake
	// without an answer is the same on every system.
	origin := wire(t, func(_ int, conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	c := newClient(t, strings.Replace(origin, "http:", "https:", 1))
	c.SetTimeouts(short, 0)
	wantTransport(t, get(t.Context(), c), false, true)
}

func TestCertificateRefused(t *testing.T) {
	s := httptest.NewTLSServer(answer(200, domainRecord))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it would log the failed handshake
	t.Cleanup(s.Close)
	wantTransport(t, get(t.Context(), newClient(t, s.URL)), false, false)
}

func TestSlowHeaders(t *testing.T) {
	a := serve(t, hang)
	c := a.client(t)
	c.SetTimeouts(0, short)
	for _, call := range []func(context.Context, *apiclient.Client) error{get, create} {
		err := call(t.Context(), c)
		wantTransport(t, err, true, true)
		// The total timeout would end it too, and later.
		if !strings.Contains(err.Error(), "awaiting response headers") {
			t.Errorf("another limit ended it: %v", err)
		}
	}
	for len(a.asked()) < 2 { // until the server has both; go test ends the wait
		time.Sleep(time.Millisecond)
	}
	if n := len(a.asked()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestWholeTimeout(t *testing.T) {
	const timeout = time.Second // enough to connect and send on a busy machine
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"no header", hang},
		{"a body that drips", drip(200)},
		{"a removal without an answer", hang},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, tc.handler)
			c := a.client(t, func(cfg *apiclient.Config) { cfg.Timeout = timeout })
			if got := c.Timeout(); got != timeout {
				t.Errorf("Timeout() is %v, want %v", got, timeout)
			}
			err := get(t.Context(), c)
			wantTransport(t, err, true, true)
			if !strings.Contains(err.Error(), "no whole answer within 1s") {
				t.Errorf("the limit is not named: %v", err)
			}
		})
	}
}

// TestErrorStatusSurvivesItsBody checks that an endless error page does not hide the known
// status.
func TestErrorStatusSurvivesItsBody(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"drips", drip(503)},
		{"endless", endless(503)},
		{"cut", cutShort(503)},
		{"empty", answer(503, "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, tc.handler)
			c := a.client(t, func(cfg *apiclient.Config) {
				if tc.name == "drips" {
					cfg.Timeout = short
				}
			})
			e, ok := errors.AsType[*apiclient.Error](get(t.Context(), c))
			if tc.name == "drips" && !ok {
				return // the machine is so slow that the header came too late
			}
			if !ok || e.Status != 503 {
				t.Errorf("want an Error of 503, got %v", e)
			}
		})
	}
}

func TestUnusableAnswers(t *testing.T) {
	page := "<!doctype html><html><body>Attention required!</body></html>"
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"endless body", endless(200), "reading its body: longer than 1048576 bytes"},
		{"truncated body", cutShort(200), "reading its body: unexpected EOF"},
		{"html", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, page)
		}, `it is not the API's (check the base URL, and the proxy or firewall before the API) but a body of type`},
		{"empty body", answer(200, ""), "its body is empty, want JSON"},
		{"blank body", answer(200, " \r\n"), "its body is empty, want JSON"},
		{"no content", answer(204, ""), "its body is empty, want JSON"},
		{"half of it", answer(200, domainRecord[:40]), "its body is not the expected JSON but a body of type"},
		{"something behind it", answer(200, domainRecord+"x"), "its body is not the expected JSON"},
		{"null", answer(200, "null"), "missing or empty: id, domain, status, verification_host, verification_txt"},
		{"an array", answer(200, "["+domainRecord+"]"), "its body is not the expected JSON"},
		{"wrong type", answer(200, strings.Replace(domainRecord, `"`+domainID+`"`, "5", 1)),
			"its body is not the expected JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", "req-1")
				tc.handler(w, r)
			})
			e := answerError(t, get(t.Context(), a.client(t)), tc.want)
			if e.RequestID != "req-1" || e.Operation != schema.OpGetDiscoveryDomain || e.Method != "GET" ||
				e.Status/100 != 2 {
				t.Errorf("incomplete: %+v", e)
			}
			wantAnswer(t, create(t.Context(), a.client(t)),
				"create_template: POST /verifiable-credentials/verification/templates: the answer")
		})
	}
}

func TestTruncatedChunks(t *testing.T) {
	origin := wire(t, func(_ int, conn *net.TCPConn) {
		if _, err := readRequest(conn); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n")
		}
	})
	err := get(t.Context(), newClient(t, origin))
	wantAnswer(t, err, "unexpected EOF")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the reason is not reached: %v", err)
	}
}

func TestConnectionReset(t *testing.T) {
	for _, tc := range []struct {
		name string
		sent string // before the reset
	}{
		{"before the answer", ""},
		{"in the header", "HTTP/1.1 200 OK\r\nContent-"},
		{"instead of a header", "\x00\x01garbage\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int64
			origin := wire(t, func(_ int, conn *net.TCPConn) {
				if _, err := readRequest(conn); err != nil {
					return
				}
				requests.Add(1)
				_, _ = io.WriteString(conn, tc.sent)
				_ = conn.SetLinger(0) // closing resets
			})
			wantTransport(t, get(t.Context(), newClient(t, origin)), true, false)
			wantTransport(t, create(t.Context(), newClient(t, origin)), true, false)
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// TestPOSTIsNeverSentAgain has the server close an idle connection on the next request.
// net/http retries idempotent requests then. A template must not be created twice.
func TestPOSTIsNeverSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name string
		read bool // whether the server has read the request that it loses
		lose func(conn *net.TCPConn, receive func(*net.TCPConn) error)
	}{
		{"closed after reading it", true, func(conn *net.TCPConn, receive func(*net.TCPConn) error) { _ = receive(conn) }},
		{"closed before reading it", false, func(*net.TCPConn, func(*net.TCPConn) error) {}},
		{"reset after reading it", true, func(conn *net.TCPConn, receive func(*net.TCPConn) error) {
			_ = receive(conn)
			_ = conn.SetLinger(0)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var posts atomic.Int64 // that the server has seen, answered or not
			proceed := make(chan struct{})
			receive := func(conn *net.TCPConn) error {
				req, err := readRequest(conn)
				if err == nil && req.Method == http.MethodPost {
					posts.Add(1)
				}
				return err
			}
			origin := wire(t, func(n int, conn *net.TCPConn) {
				for first := true; ; first = false {
					if n == 0 && !first {
						<-proceed
						tc.lose(conn, receive)
						return
					}
					if receive(conn) != nil {
						return
					}
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(domainRecord), domainRecord)
				}
			})
			c := newClient(t, origin)
			if err := get(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			close(proceed)
			err := create(t.Context(), c)
			e, lost := errors.AsType[*apiclient.TransportError](err)
			switch n := posts.Load(); {
			case tc.read && (n != 1 || !lost || !e.Sent):
				t.Errorf("seen %d times, and then %v; want once, and that it may have arrived", n, err)
			case !tc.read && (n > 1 || (err == nil) != (n == 1)):
				// If the client notices the close in time, the POST is sent once, over another
				// connection.
				t.Errorf("seen %d times, and then %v", n, err)
			}
		})
	}
}

// secureServer serves HTTP/2 too if requested; the network trusts it.
func secureServer(t *testing.T, http2 bool, handler http.HandlerFunc) (*httptest.Server, apiclient.Network) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients leave in its middle
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, apiclient.Network{RootCAs: roots}
}

func TestOverTLS(t *testing.T) {
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			s, network := secureServer(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != proto {
					t.Errorf("%s, want %s", r.Proto, proto)
				}
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.Method == http.MethodPost:
					hang(w, r)
				case r.Method == http.MethodDelete && string(body) != `{"clients":["a"]}`:
					t.Errorf("a DELETE's body is %q", body)
				case r.Method == http.MethodDelete:
					w.WriteHeader(http.StatusNoContent)
				default:
					answer(200, domainRecord)(w, r)
				}
			})
			patient := newClient(t, s.URL, func(cfg *apiclient.Config) { cfg.Network = network })
			if err := get(t.Context(), patient); err != nil {
				t.Fatal(err)
			}
			if err := patient.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
				t.Error(err)
			}
			hasty := newClient(t, s.URL, func(cfg *apiclient.Config) { cfg.Network = network })
			hasty.SetTimeouts(0, short)
			wantTransport(t, create(t.Context(), hasty), true, true)
		})
	}
}

// TestConnectionIsKept checks that bodies are read to a near end, so that one connection is
// reused.
func TestConnectionIsKept(t *testing.T) {
	var conns atomic.Int64
	a := &api{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.Method {
		case http.MethodDelete:
			answer(200, strings.Repeat(" ", 10_000))(w, r)
		case http.MethodPost:
			answer(500, strings.Repeat("x", 10_000))(w, r)
		default:
			answer(200, domainRecord)(w, r)
		}
	}))
	a.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	a.Start()
	t.Cleanup(a.Close)
	c := a.client(t)
	for range 5 {
		if err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		if err := create(t.Context(), c); err == nil {
			t.Fatal("no error for a 500")
		}
		if err := get(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		for _, to := range []string{"/elsewhere", "http://[broken", "https://other.example/?a=b"} {
			t.Run(fmt.Sprintf("%d to %s", status, to), func(t *testing.T) {
				a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", to)
					w.WriteHeader(status)
				})
				for _, call := range []func(context.Context, *apiclient.Client) error{get, create} {
					e := answerError(t, call(t.Context(), a.client(t)), "but an empty body, a redirect")
					if strings.Contains(e.Error(), to) {
						t.Errorf("%v", e)
					}
					if e.Status != status {
						t.Errorf("status %d, want %d", e.Status, status)
					}
				}
				if n := len(a.asked()); n != 2 {
					t.Errorf("%d requests, want 2", n)
				}
			})
		}
	}
}

func TestCallersContext(t *testing.T) {
	t.Run("ended before", func(t *testing.T) {
		a := serve(t, answer(200, domainRecord))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := get(ctx, a.client(t))
		e, ok := errors.AsType[*apiclient.TransportError](err)
		if !ok || e.Sent || !errors.Is(err, context.Canceled) {
			t.Errorf("want a TransportError of context.Canceled, nothing sent, got %v", err)
		}
		if n := len(a.asked()); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		a := serve(t, hang)
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		err := create(ctx, a.client(t))
		e, ok := errors.AsType[*apiclient.TransportError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || !e.Timeout() {
			t.Errorf("want a TransportError of context.DeadlineExceeded, got %v", err)
		}
	})
	t.Run("cancelled with a cause while the body drips", func(t *testing.T) {
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			cancel(cause)
			<-r.Context().Done()
		})
		err := get(ctx, a.client(t))
		e, ok := errors.AsType[*apiclient.TransportError](err)
		if !ok || !e.Sent || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("want a TransportError of context.Canceled and its cause, got %v", err)
		}
	})
}

func TestHeaderIsBounded(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 300<<10))
		_, _ = io.WriteString(w, domainRecord)
	})
	wantTransport(t, get(t.Context(), a.client(t)), true, false)
}

// slowFirst returns the first token late, like a token that must be fetched, and calls then.
type slowFirst struct {
	calls atomic.Int32
	then  func()
}

func (s *slowFirst) Token(context.Context) (apiclient.Secret, error) {
	if s.calls.Add(1) == 1 {
		time.Sleep(200 * time.Millisecond) // longer than a permit stays fresh
		s.then()
	}
	return apiclient.NewSecret("token"), nil
}

func (*slowFirst) Expire(apiclient.Secret) {}

// counting forwards and counts all requests.
type counting struct{ waits, answers atomic.Int32 }

func (g *counting) Wait(context.Context, apiclient.Request) error { g.waits.Add(1); return nil }

func (g *counting) Answered(context.Context, string, int, http.Header, time.Duration) {
	g.answers.Add(1)
}

// TestPermitsDoNotWaitForTheToken checks that requests do not hold permits while they wait for
// a token: they would all be sent at once when it arrives. A permit that has waited expires.
func TestPermitsDoNotWaitForTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w,
				`{"id":"d","domain":"a.example","status":"pending","verification_txt":"t","verification_host":"_x.a.example"}`)
		}))
		defer server.Close()
		gate, tokens := &counting{}, &slowFirst{then: server.Start} // no time passes while the server accepts connections
		client, err := apiclient.New(apiclient.Config{BaseURL: "http://" + server.Listener.Addr().String() + "/api/v2",
			Tokens: tokens, Gate: gate})
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdle()
		for range 2 {
			if _, err := client.DiscoveryDomain(t.Context(), "o", "d"); err != nil {
				t.Fatal(err)
			}
		}
		if waits, answers := gate.waits.Load(), gate.answers.Load(); waits != 3 || answers != 3 {
			t.Errorf("%d permits and %d answers for two requests, one of which waited for its token; want 3 and 3",
				waits, answers)
		}
	})
}
