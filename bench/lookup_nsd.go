package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"orgops/dnscheck"
)

// What the zone holds: a TXT record at each name, all with the same token.
const (
	lookupZone  = "bench.test"
	lookupToken = "orgops-verification=3f9c1b7e5a2d4860b1c7d9e3f5a80264"
)

func lookupName(n int) string { return fmt.Sprintf("_verify.d%06d.%s", n, lookupZone) }

// nameServer is an NSD on loopback that holds the zone: over UDP and TCP at plain,
// over TLS at secure.
type nameServer struct {
	plain, secure netip.AddrPort
	roots         *x509.CertPool // its certificate
	queries       string         // a file of all names, as dnsperf reads it
	stop          func() error
}

const nsdConf = `server:
  ip-address: 127.0.0.1@%[2]s
  ip-address: 127.0.0.1@%[3]s
  tls-port: %[3]s
  tls-service-key: "%[1]s/key.pem"
  tls-service-pem: "%[1]s/cert.pem"
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
  name: %[4]s
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
	ports := [2]string{}
	for i, at := range []*netip.AddrPort{&s.plain, &s.secure} {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		ports[i], *at = port, netip.MustParseAddrPort("127.0.0.1:"+port)
	}
	var err error
	if s.roots, err = writeCertificate(dir); err != nil {
		return err
	}
	conf := fmt.Sprintf(nsdConf, dir, ports[0], ports[1], lookupZone)
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

// writeCertificate makes a key and a certificate for the loopback address, and
// returns the pool of it alone.
func writeCertificate(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "orgops bench"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write its key: %w", err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return roots, errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	)
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

// checker asks the server as a worker asks a resolver, over udp, tcp or tls.
func (s *nameServer) checker(transport string) (*dnscheck.Checker, error) {
	return dnscheck.New(dnscheck.Config{
		Resolvers: []dnscheck.Resolver{{Addr: s.at(transport), Transport: transport}}, RootCAs: s.roots,
	})
}

func (s *nameServer) at(transport string) netip.AddrPort {
	if transport == "tls" {
		return s.secure
	}
	return s.plain
}

func (s *nameServer) port(transport string) string {
	return strconv.Itoa(int(s.at(transport).Port()))
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
