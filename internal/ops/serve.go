package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Limits on a client that is slow, or means ill.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second // no request here has a large body
	writeTimeout  = 60 * time.Second // a list of tasks over a forwarded port
	idleTimeout   = 90 * time.Second // longer than the usual scrape interval
	maxHeader     = 16 << 10
)

// Serve listens on addr (host:port; port 0 lets the system choose) and serves h
// there until stop is called. It returns the address that it listens on. The
// requests' contexts come from ctx; when it ends they end, but not the server.
//
// stop lets running requests finish until its ctx ends, then cuts them off and
// returns that error. It returns once nothing is served any more, and may be
// called more than once.
func Serve(ctx context.Context, addr string, h http.Handler, logger *slog.Logger) (listenAddr string, stop func(context.Context) error, err error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("serve on %q: %w", addr, err)
	}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.ErrorContext(ctx, "http server ended", "addr", listener.Addr().String(), "error", err)
		}
	}()
	stop = func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(fmt.Errorf("requests were still running: %w", err), server.Close())
		}
		<-ended
		return err
	}
	return listener.Addr().String(), stop, nil
}

// CheckLoopback is an error unless addr is host:port with a host that only this
// machine can reach: localhost or a loopback address. An empty host is every
// address of the machine, and refused.
func CheckLoopback(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: want host:port, such as 127.0.0.1:8080", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %q: want a port from 0 to 65535, got %q", addr, port)
	}
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("address %q: the operator's pages ask nobody who they are, so they are served on loopback only: use 127.0.0.1:%s, and forward the port to see them from elsewhere (ssh -L)", addr, port)
}
