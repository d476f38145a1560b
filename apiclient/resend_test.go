package apiclient_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"orgops/apiclient"
)

// TestResendsNeedPermits has the API reset or close every idle connection. However many they
// are, the API receives no request without a permit, and each call succeeds over a new
// connection.
func TestResendsNeedPermits(t *testing.T) {
	const kept = 30
	remove := func(ctx context.Context, c *apiclient.Client) error {
		return c.RemoveOrganizationClients(ctx, orgID, []string{"a"})
	}
	for _, tc := range []struct {
		name string
		call func(context.Context, *apiclient.Client) error
		lose func(conn *net.TCPConn, receive func() error)
	}{
		{"GET, reset when the next request comes", get, func(conn *net.TCPConn, receive func() error) {
			_ = receive()
			_ = conn.SetLinger(0) // closing resets
		}},
		{"GET, closed when the next request comes", get, func(_ *net.TCPConn, receive func() error) { _ = receive() }},
		{"GET, closed while idle", get, func(*net.TCPConn, func() error) {}},
		{"DELETE, closed while idle", remove, func(*net.TCPConn, func() error) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var seen atomic.Int32
			var lost atomic.Bool
			var warm sync.WaitGroup
			warm.Add(kept)
			proceed := make(chan struct{})
			origin := wire(t, func(_ int, conn *net.TCPConn) {
				in := bufio.NewReader(conn)
				receive := func() error {
					req, err := http.ReadRequest(in)
					if err == nil {
						seen.Add(1)
						_, err = io.Copy(io.Discard, req.Body)
					}
					return err
				}
				for n := 0; ; n++ {
					if n == 1 && !lost.Load() {
						<-proceed
						tc.lose(conn, receive)
						return
					}
					if receive() != nil {
						return
					}
					if !lost.Load() { // all at once, so that each has a connection
						warm.Done()
						warm.Wait()
					}
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(domainRecord), domainRecord)
				}
			})
			gate := &counting{}
			c := newClient(t, origin, func(cfg *apiclient.Config) { cfg.Gate, cfg.MaxConns = gate, kept })
			var all sync.WaitGroup
			for range kept {
				all.Go(func() {
					if err := get(t.Context(), c); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			lost.Store(true)
			close(proceed)
			err := tc.call(t.Context(), c)
			if err != nil && tc.name[:3] == "GET" {
				t.Errorf("after the connections were lost: %v", err)
			}
			if permits := gate.waits.Load(); seen.Load() > permits || permits > kept+4 {
				t.Errorf("%d requests were seen for %d permits; want no more, and few resends of the last one",
					seen.Load(), permits)
			}
		})
	}
}
