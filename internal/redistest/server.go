package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is the process of a redis-server or a Sentinel. It is killed with the test.
type Server struct {
	// Addr is its host:port, Dir the directory of its files.
	Addr, Dir string

	t     testing.TB
	args  []string
	cmd   *exec.Cmd
	ended chan struct{}
}

// serverUp is how long a redis-server may take to answer.
const serverUp = 30 * time.Second

// Start starts a redis-server with further arguments, such as "--appendonly", "yes"; it writes
// no RDB. The test is skipped if none is installed.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	for try := 1; ; try++ {
		s := prepare(t)
		s.args = append(s.args, "--save", "")
		s.args = append(s.args, settings...)
		err := s.run()
		if err == nil {
			return s
		}
		if try == 3 || !strings.Contains(err.Error(), "Address already in use") { // taken meanwhile
			t.Fatal(err)
		}
	}
}

// StartSentinel starts a Sentinel that watches a master under a name, and regards it as down
// after a second. Replicas must be connected before: it reads them once.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	s := prepare(t)
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(s.Dir, "sentinel.conf") // it stores its state there
	text := fmt.Sprintf(
		"sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", name, host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = append([]string{config, "--sentinel"}, s.args...)
	s.Restart()
	return s
}

func prepare(t testing.TB) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs a redis-server of its own: none is installed")
	}
	port := freePort(t)
	s := &Server{t: t, Addr: net.JoinHostPort("127.0.0.1", port), Dir: t.TempDir()}
	s.args = []string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--logfile", filepath.Join(s.Dir, "log")}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log")) // whatever can be read of it
			t.Logf("the end of the log of redis-server at %s:\n%s", s.Addr, log[max(0, len(log)-4000):])
		}
	})
	return s
}

// freePort returns a port of 127.0.0.1 on which no process listens. It is below the ports that
// systems give to outgoing connections: one of those could take it before the server does.
func freePort(t testing.TB) string {
	t.Helper()
	const from, below = 20_000, 32_000
	for {
		port := strconv.Itoa(from + rand.IntN(below-from))
		free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
}

// URL returns the URL of its database 0.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Client returns a client, closed with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(options(s.Addr))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill kills it with -9 and waits for its end. A killed server stays as it is.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Signal sends the process a signal, such as one that suspends it.
func (s *Server) Signal(signal os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Restart starts it again with the same address and files, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) run() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), serverUp)
	defer cancel()
	s.cmd = exec.Command("redis-server", s.args...) //nolint:noctx // it runs on after this function
	endWithTest(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	ended := make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) {
		defer close(ended)
		_ = cmd.Wait() // says only that it was killed
	}(s.cmd)
	c := redis.NewClient(options(s.Addr))
	defer func() { _ = c.Close() }()
	for {
		err := c.Ping(ctx).Err()
		if err == nil || redis.IsAuthError(err) { // it has users, and may still load its files
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ended:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		log, _ := os.ReadFile(filepath.Join(s.Dir, "log")) // whatever can be read of it
		return fmt.Errorf("redis-server at %s does not come up: %w; its log:\n%s", s.Addr, err, log)
	}
}

// AOF returns the path of the file to which the server appends. Start it with "--appendonly",
// "yes", "--auto-aof-rewrite-percentage", "0".
func (s *Server) AOF() string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		s.t.Fatalf("append-only files %q, %v: want one", files, err)
	}
	return files[0]
}
