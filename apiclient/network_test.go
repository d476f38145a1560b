package apiclient_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"orgops/apiclient"
)

// TestOneConnectionOverHTTP2 checks that concurrent requests share a connection over HTTP/2.
func TestOneConnectionOverHTTP2(t *testing.T) {
	const callers = 30
	var conns atomic.Int64
	var together sync.WaitGroup
	together.Add(callers)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("warm") == "" && r.Method == http.MethodGet {
			together.Done()
			together.Wait()
		}
		answer(200, domainRecord)(w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	c := newClient(t, s.URL, func(cfg *apiclient.Config) { cfg.Network = trusting(s) })
	if err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
		t.Fatal(err) // opens a connection
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if err := get(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// stream is a complete request as an HTTP/2 server has read it.
type stream struct {
	conn   int // from 0
	id     uint32
	method string
	body   string
}

// frames serves HTTP/2 frame by frame, so that it can refuse streams and close connections at
// any point. handle answers a complete request. If it returns false, the connection is closed.
func frames(t *testing.T, handle func(f *http2.Framer, s stream) bool) (origin string, network apiclient.Network) {
	t.Helper()
	// Only for its certificate and address.
	model := httptest.NewUnstartedServer(nil)
	model.StartTLS()
	network = trusting(model)
	config := &tls.Config{Certificates: model.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	model.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	// The client may have idle connections, which it would close much later.
	ended, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer context.AfterFunc(ended, func() { _ = conn.Close() })()
				defer func() { _ = conn.Close() }()
				serveFrames(conn, n, handle)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		end()
		all.Wait()
	})
	return "https://" + l.Addr().String(), network
}

func serveFrames(conn net.Conn, number int, handle func(f *http2.Framer, s stream) bool) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if f.WriteSettings() != nil {
		return
	}
	open := map[uint32]*stream{}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		var s *stream
		ended := false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return
			}
		case *http2.PingFrame:
			if !frame.IsAck() && f.WritePing(true, frame.Data) != nil {
				return
			}
		case *http2.MetaHeadersFrame:
			s = &stream{conn: number, id: frame.StreamID, method: frame.PseudoValue("method")}
			open[frame.StreamID], ended = s, frame.StreamEnded()
		case *http2.DataFrame:
			s, ended = open[frame.StreamID], frame.StreamEnded()
			if s != nil {
				s.body += string(frame.Data())
			}
		}
		if s != nil && ended && !handle(f, *s) {
			return
		}
	}
}

func respond(f *http2.Framer, id uint32, status, body string) bool {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	if e.WriteField(hpack.HeaderField{Name: ":status", Value: status}) != nil ||
		e.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"}) != nil {
		return false
	}
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}) == nil &&
		f.WriteData(id, true, []byte(body)) == nil
}

// TestLostOverHTTP2 checks that a request which the server reports as unprocessed is retried
// with a permit of its own: a template waits two minutes after a POST that may have arrived.
// No request lost in another way is retried.
func TestLostOverHTTP2(t *testing.T) {
	calls := map[string]func(context.Context, *apiclient.Client) error{
		http.MethodGet: get, http.MethodPost: create,
		http.MethodDelete: func(ctx context.Context, c *apiclient.Client) error {
			return c.RemoveOrganizationClients(ctx, orgID, []string{"a"})
		},
	}
	for _, tc := range []struct {
		name  string
		lose  func(f *http2.Framer, s stream) bool
		again bool // net/http repeats it
		post  bool // a POST is repeated too
	}{
		{"refused", func(f *http2.Framer, s stream) bool {
			return f.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) == nil
		}, true, true},
		{"above the last of a GOAWAY", func(f *http2.Framer, _ stream) bool {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return false
		}, true, true},
		{"the last of a GOAWAY", func(f *http2.Framer, s stream) bool {
			_ = f.WriteGoAway(s.id, http2.ErrCodeNo, nil)
			return false
		}, false, false},
		{"cut off", func(*http2.Framer, stream) bool { return false }, false, false},
		// As servers without a GOAWAY do: the POST may have been processed.
		{"a protocol error", func(f *http2.Framer, s stream) bool {
			return f.WriteRSTStream(s.id, http2.ErrCodeProtocol) == nil
		}, true, false},
		{"given up by the server", func(f *http2.Framer, s stream) bool {
			return f.WriteRSTStream(s.id, http2.ErrCodeInternal) == nil
		}, false, false},
	} {
		for method, call := range calls {
			t.Run(tc.name+" "+method, func(t *testing.T) {
				var mu sync.Mutex
				var seen []stream
				origin, network := frames(t, func(f *http2.Framer, s stream) bool {
					mu.Lock()
					seen = append(seen, s)
					first := len(seen) == 1
					mu.Unlock()
					if first {
						return tc.lose(f, s)
					}
					return respond(f, s.id, "200", domainRecord)
				})
				gate := &counting{}
				err := call(t.Context(), newClient(t, origin, func(cfg *apiclient.Config) {
					cfg.Network, cfg.Gate = network, gate
				}))
				mu.Lock()
				defer mu.Unlock()
				if permits := int(gate.waits.Load()); permits != len(seen) {
					t.Errorf("%d requests for %d permits", len(seen), permits)
				}
				if tc.again && (method != http.MethodPost || tc.post) {
					if err != nil || len(seen) != 2 || seen[0].body != seen[1].body {
						t.Errorf("seen %v, and then: %v", seen, err)
					}
					return
				}
				if len(seen) != 1 {
					t.Fatalf("sent again: %v", seen)
				}
				wantTransport(t, err, true, false)
			})
		}
	}
}

func trusting(s *httptest.Server) apiclient.Network {
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return apiclient.Network{RootCAs: roots}
}

func TestRootCAs(t *testing.T) {
	s := httptest.NewTLSServer(answer(200, domainRecord))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	pool, err := apiclient.ReadRootCAs(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), newClient(t, s.URL, func(cfg *apiclient.Config) {
		cfg.Network.RootCAs = pool
	})); err != nil {
		t.Error(err)
	}
	writeFile(t, file, "something else")
	if _, err := apiclient.ReadRootCAs(file); err == nil ||
		err.Error() != file+": it has no certificate: want PEM, BEGIN CERTIFICATE" {
		t.Errorf("got %v", err)
	}
}

// TestProxy checks that a proxy sees the target of a request, and none of its content.
func TestProxy(t *testing.T) {
	s, network := secureServer(t, true, answer(200, domainRecord))
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.Host+" "+r.Header.Get("Authorization")+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		tunnel(w, r)
	}))
	t.Cleanup(proxy.Close)
	through, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	network.Proxy = func(u *url.URL) (*url.URL, error) {
		if u.Host == s.Listener.Addr().String() {
			return through, nil
		}
		return nil, errors.New("another URL: " + u.String())
	}
	c := newClient(t, s.URL, func(cfg *apiclient.Config) { cfg.Network = network })
	if err := get(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err = apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
		TokenURL: s.URL + "/oauth/token", Audience: "a", ClientID: "i",
		ClientSecret: apiclient.NewSecret(clientSecret), Network: network,
	}).Token(t.Context())
	if got := tokenError(t, err); got.Status != 200 {
		t.Errorf("the token endpoint is not reached: %v", err)
	}
	c.CloseIdle()
	mu.Lock()
	defer mu.Unlock()
	want := "CONNECT " + s.Listener.Addr().String() + " "
	if len(asked) != 2 || asked[0] != want || asked[1] != want {
		t.Errorf("the proxy was asked %q", asked)
	}
}

// TestProxyRefuses has a proxy refuse to connect: errors of requests and of tokens name it and
// its status, and nothing was sent.
func TestProxyRefuses(t *testing.T) {
	for status, text := range map[int]string{407: "407 Proxy Authentication Required", 403: "403 Forbidden",
		503: "503 Service Unavailable"} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(proxy.Close)
		through, err := url.Parse(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		network := apiclient.Network{Proxy: func(*url.URL) (*url.URL, error) { return through, nil }}
		want := "the proxy " + through.Host + " refused to connect: " + text
		refused := func(err error) {
			t.Helper()
			got, ok := errors.AsType[*apiclient.ProxyError](err)
			if !ok || got.Status != status || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		c := newClient(t, "https://api.example.com", func(cfg *apiclient.Config) { cfg.Network = network })
		err = get(t.Context(), c)
		refused(err)
		if lost, ok := errors.AsType[*apiclient.TransportError](err); !ok || lost.Sent {
			t.Errorf("got %v, want that nothing was sent", err)
		}
		_, err = apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: "https://api.example.com/oauth/token", Audience: "a", ClientID: "i",
			ClientSecret: apiclient.NewSecret(clientSecret), Network: network,
		}).Token(t.Context())
		refused(tokenError(t, err))
	}
}

// tunnel handles CONNECT as a proxy does.
func tunnel(w http.ResponseWriter, r *http.Request) {
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pipe(there, here) })
	both.Go(func() { pipe(here, there) })
	both.Wait()
}

func gzipped(t *testing.T, write func(w io.Writer)) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCompressedAnswers checks that responses may be compressed, and that the size limit
// applies to the decompressed body.
func TestCompressedAnswers(t *testing.T) {
	small := gzipped(t, func(w io.Writer) { _, _ = io.WriteString(w, domainRecord) })
	bomb := gzipped(t, func(w io.Writer) {
		block := make([]byte, 1<<20)
		for range 64 {
			_, _ = w.Write(block)
		}
	})
	body, status := small, http.StatusOK
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		answer(status, body)(w, r)
	})
	c := a.client(t)
	if err := get(t.Context(), c); err != nil {
		t.Error(err)
	}
	body = bomb
	wantAnswer(t, get(t.Context(), c), "reading its body: longer than 1048576 bytes")
	status = http.StatusBadRequest
	if e := answerError(t, get(t.Context(), c), "reading its body: longer than 1048576 bytes"); e.Status != 400 {
		t.Error("the status is lost")
	}
	body, status = "no gzip at all", http.StatusOK
	wantAnswer(t, get(t.Context(), c), "gzip: invalid header")
}

func TestCorrelationID(t *testing.T) {
	long := strings.Repeat("run", 21) + "-17-0" // 68 characters
	seen := make(chan []string, 1)
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Values("X-Correlation-ID")
		answer(200, domainRecord)(w, r)
	})
	c := a.client(t)
	sent := func(ctx context.Context) string {
		t.Helper()
		if err := get(ctx, c); err != nil {
			t.Fatal(err)
		}
		return strings.Join(<-seen, "|")
	}
	if got := sent(t.Context()); got != "" {
		t.Errorf("got %q without one", got)
	}
	for _, id := range []string{"run-7-17-0c", strings.Repeat("x", 64)} {
		if got := sent(apiclient.WithCorrelationID(t.Context(), id)); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for id, beginning := range map[string]string{long: strings.Repeat("run", 15) + "ru-", "two\r\nlines": "two__lines-"} {
		if got := sent(apiclient.WithCorrelationID(t.Context(), id)); len(got) > 64 || !strings.HasPrefix(got, beginning) {
			t.Errorf("%q became %q", id, got)
		}
	}
	if sent(apiclient.WithCorrelationID(t.Context(), long)) == sent(apiclient.WithCorrelationID(t.Context(), long+"c")) {
		t.Error("two long ids became one")
	}
	if sent(apiclient.WithCorrelationID(t.Context(), "a b")) == sent(apiclient.WithCorrelationID(t.Context(), "a_b")) {
		t.Error("two ids became one")
	}
}
