package webhooks

import (
	"cmp"
	"context"
	"net"
)

// Reach connects to the endpoint as a delivery without a proxy does, and sends nothing. The
// error has no part of the URL but the host.
func (e Endpoint) Reach(ctx context.Context) error {
	port := map[string]string{"http": "80", "https": "443"}[e.url.Scheme]
	conn, err := newDial(nil, e.allowed)(ctx, "tcp", net.JoinHostPort(e.url.Hostname(), cmp.Or(e.url.Port(), port)))
	if err != nil {
		return err
	}
	return conn.Close()
}
