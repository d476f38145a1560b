package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"orgops/dnscheck"
)

// What the zone holds: a TXT record at each name, all with the same token.
const (
	lookupZone  = "bench.test"
	lookupToken = "orgops-verification=3f9c1b7e5a2d4860b1c7d9e3f5a80264"
)

func lookupName(n int) string { return fmt.Sprintf("_verify.d%06d.%s", n, lookupZone) }

// nameServer is an NSD on loopback that holds the zone.
type nameServer struct {
	plain   netip.AddrPort
	queries string // a file of all names, as dnsperf reads it
	stop    func() error
}

const nsdConf = `server:
  ip-address: 127.0.0.1@%[2]s
  server-count: 1
  tcp-count: 200
  rrl-ratelimit: 0
  username: ""
  chroot: ""
  zonesdir: "%[1]s"
  pidfile: "%[1]s/pid"
  xfrdfile: "%[1]s/xfrd"
  xfrdir: "%[1]s"
  zonelistfile: "%[1]s/list"
  database: ""
  logfile: "%[1]s/log"
remote-control:
  control-enable: no
zone:
  name: %[3]s
  zonefile: zone
`

// startNSD starts an NSD that holds as many names, on ports of its own.
func startNSD(ctx context.Context, names int) (_ *nameServer, err error) {
	program, err := installed("nsd")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "orgops-bench-")
	if err != nil {
		return nil, fmt.Errorf("folder for nsd: %w", err)
	}
	s := &nameServer{queries: filepath.Join(dir, "queries"), stop: func() error { return os.RemoveAll(dir) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if err := s.write(ctx, dir, names); err != nil {
		return nil, err
	}
	server := exec.Command(program, "-d", "-c", filepath.Join(dir, "nsd.conf"))
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	s.stop = func() error {
		_ = server.Process.Signal(os.Interrupt) // it ends its children too; it may have ended before, by the same Ctrl-C
		return errors.Join(server.Wait(), os.RemoveAll(dir))
	}
	if err := s.awaitUp(ctx, names); err != nil {
		return nil, fmt.Errorf("nsd did not come up: %w; it said last: %q", err, lastLine(filepath.Join(dir, "log")))
	}
	return s, nil
}

// write writes what NSD and dnsperf read.
func (s *nameServer) write(ctx context.Context, dir string, names int) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.plain = netip.MustParseAddrPort("127.0.0.1:" + port)
	conf := fmt.Sprintf(nsdConf, dir, port, lookupZone)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "nsd.conf"), []byte(conf), 0o600),
		writeLines(filepath.Join(dir, "zone"), names, "$ORIGIN "+lookupZone+".\n$TTL 3600\n@ SOA ns root 1 3600 3600 3600 60\n@ NS ns\nns A 127.0.0.1\n",
			func(n int) string { return lookupName(n) + ". TXT \"" + lookupToken + "\"\n" }),
		writeLines(s.queries, names, "", func(n int) string { return lookupName(n) + " TXT\n" }),
	)
}

func writeLines(path string, n int, head string, line func(int) string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	_, _ = w.WriteString(head) // an error stays till Flush
	for i := range n {
		_, _ = w.WriteString(line(i))
	}
	return errors.Join(w.Flush(), file.Close())
}

// nsdUp is how long NSD may take to read the zone and answer: a second for
// 100,000 names.
const nsdUp = 30 * time.Second

// awaitUp returns when the last name is found.
func (s *nameServer) awaitUp(ctx context.Context, names int) error {
	ctx, cancel := context.WithTimeout(ctx, nsdUp)
	defer cancel()
	checker, err := s.checker("tcp")
	if err != nil {
		return err
	}
	defer checker.Close()
	for {
		err := present(checker.Check(ctx, lookupName(names-1), lookupToken))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// checker asks the server as a worker asks a resolver, over udp or tcp.
func (s *nameServer) checker(transport string) (*dnscheck.Checker, error) {
	return dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{{Addr: s.plain, Transport: transport}}})
}

// installed finds a program, or says what package has it.
func installed(program string) (string, error) {
	for _, candidate := range []string{program, "/usr/sbin/" + program} { // Debian has daemons where a user's PATH has not
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: install it (apt-get install %s, brew install %s)", program, program, program)
}
