package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Limits on slow and malicious clients. A [Front] replaces those of reading and writing.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute // longer than the usual scrape interval
	maxHeader     = 16 << 10
)

type stoppingKey struct{}

// Stopping returns a channel that is closed when the server of a request begins to stop, so that a
// stream of events ends.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stoppingKey{}).(chan struct{})
	return stopping
}

// Serve listens on addr (host:port; port 0 lets the system choose) and serves h there, by TLS
// if there is a certificate, until stop is called. It returns the URL that it is served at, and
// a channel with the error of a server that ends by itself. The contexts of requests have the
// values of ctx, whose end does not end them.
//
// stop lets running requests finish until its ctx ends, then cuts them off and returns that
// error. It returns once no handler runs any more, and may be called again.
func Serve(
	ctx context.Context, addr string, certificate *tls.Config, h http.Handler, logger *slog.Logger,
) (url string, ended <-chan error, stop func(context.Context) error, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, nil, fmt.Errorf("serve on %q: %w", addr, err)
	}
	url = "http://" + listener.Addr().String()
	if certificate != nil {
		url = "https://" + listener.Addr().String()
		listener = tls.NewListener(listener, certificate)
	}
	stopping := make(chan struct{})
	running := sync.WaitGroup{}
	connections := newConnections(mostConnections)
	ctx = context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, stopping)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Done()
			connections.serve(h, w, r)
		}),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connections.context,
		ConnState:         connections.changed,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // broken handshakes and the like
	}
	broken := make(chan error, 1)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.ErrorContext(ctx, "http server ended", "addr", addr, "error", err)
			broken <- err
		}
	}()
	begin := sync.OnceFunc(func() { close(stopping) })
	stop = func(ctx context.Context) error {
		begin()
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(fmt.Errorf("requests were still running: %w", err), server.Close())
		}
		<-served
		running.Wait()
		return err
	}
	return url, broken, stop, nil
}

// TLS is a server's configuration with the certificate of two PEM files, which
// are read again when they change, by the clock now.
func TLS(certFile, keyFile string, log *slog.Logger, now func() time.Time) (*tls.Config, error) {
	load := func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
		}
		return &c, nil
	}
	certificate, err := Read(load, log, now, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	var warned atomic.Int64 // the day of the last warning
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := certificate.Get()
		at := now()
		end := c.Leaf.NotAfter
		day := at.Unix() / (24 * 60 * 60)
		if end.Sub(at) < endsSoon && warned.Swap(day) != day {
			log.Warn("the TLS certificate has expired, or does soon", "expires_at", end, "files", certFile+" "+keyFile,
				"fix", "replace these files: they are read again within a second")
		}
		return c, nil
	}
	_, _ = get(nil)
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: get}, nil
}

// endsSoon is less than the month that is left when ACME clients renew a certificate.
const endsSoon = 14 * 24 * time.Hour
