package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits on slow and malicious clients.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second // no request here has a large body
	// WriteTimeout is how long a client may take to receive an answer: a list of tasks over a
	// forwarded port.
	WriteTimeout = 60 * time.Second
	idleTimeout  = 90 * time.Second // longer than the usual scrape interval
	maxHeader    = 16 << 10
)

// Serve listens on addr (host:port; port 0 lets the system choose) and serves h there, by TLS
// if there is a certificate, until stop is called. It returns the address that it listens on.
// The contexts of requests derive from ctx, whose end does not stop the server.
//
// stop lets running requests finish until its ctx ends, then cuts them off and returns that
// error. It returns once nothing is served any more, and may be called again.
func Serve(ctx context.Context, addr string, certificate *tls.Config, h http.Handler, logger *slog.Logger) (listenAddr string, stop func(context.Context) error, err error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("serve on %q: %w", addr, err)
	}
	at := listener.Addr().String()
	if certificate != nil {
		listener = tls.NewListener(listener, certificate)
	}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.ErrorContext(ctx, "http server ended", "addr", at, "error", err)
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
	return at, stop, nil
}
