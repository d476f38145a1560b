package dnscheck_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
)

// insideVar is set when the test runs itself with permission to make network namespaces.
const insideVar = "ORGOPS_TEST_INSIDE"

// TestHostileWorldsOverSockets runs the enqueue command in the worlds of
// TestProofsInHostileWorlds, each in its own network namespace. Name servers and resolvers are
// sockets at public addresses.
//
// ORGOPS_TEST_SOCKET_WORLDS is the number of worlds. ORGOPS_TEST_SEED repeats a run.
// ORGOPS_TEST_ENQUEUE is the path of another enqueue command.
func TestHostileWorldsOverSockets(t *testing.T) {
	worlds, seed := numberSet(t, "ORGOPS_TEST_SOCKET_WORLDS", 0), numberSet(t, "ORGOPS_TEST_SEED", rand.Uint64())
	switch {
	case worlds == 0:
		t.Skip("ORGOPS_TEST_SOCKET_WORLDS says of how many worlds")
	case os.Getenv(insideVar) == "":
		runInside(t, seed)
		return
	}
	fmt.Printf("%d worlds, ORGOPS_TEST_SEED=%d\n", worlds, seed)
	c := command{enqueue: os.Getenv("ORGOPS_TEST_ENQUEUE"), certifier: newCertifier(t), verdicts: make(map[verdictIn]int)}
	c.writeRoots(t)
	t.Run("worlds", func(t *testing.T) {
		for i := range worlds {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				c.checks(t, fmt.Sprintf("world %d of seed %d", i, seed), rand.New(rand.NewPCG(seed, i)))
			})
		}
	})
	for _, published := range []bool{true, false} {
		for _, state := range []dnscheck.State{dnscheck.Present, dnscheck.Absent, dnscheck.Unknown} {
			fmt.Printf("published %t: %d %s in calm worlds, %d in others\n", published,
				c.verdicts[verdictIn{true, published, state}], state, c.verdicts[verdictIn{false, published, state}])
		}
	}
}

// runInside runs this test again with permission to make network namespaces. Worlds mostly
// wait for silent servers, hence the high parallelism.
func runInside(t *testing.T, seed uint64) {
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("ip is not installed (apt-get install iproute2)")
	}
	enqueue := os.Getenv("ORGOPS_TEST_ENQUEUE")
	if enqueue == "" {
		enqueue = filepath.Join(t.TempDir(), "enqueue")
		if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", enqueue,
			"orgops/cmd/enqueue").CombinedOutput(); err != nil {
			t.Fatalf("build enqueue: %v\n%s", err, said)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileWorldsOverSockets$", "-test.parallel=24")
	cmd.Env = append(os.Environ(), insideVar+"="+ip, "ORGOPS_TEST_ENQUEUE="+enqueue,
		fmt.Sprintf("ORGOPS_TEST_SEED=%d", seed))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	said, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	t.Logf("\n%s", said)
	if err != nil {
		t.Error(err)
	}
}

// command is a built enqueue command, and the number of its verdicts.
type command struct {
	certifier

	enqueue, roots string

	mu       sync.Mutex
	verdicts map[verdictIn]int
}

// verdictIn is a kind of world and a verdict.
type verdictIn struct {
	calm, published bool
	state           dnscheck.State
}

// writeRoots writes the certificate file that enqueue trusts.
func (c *command) writeRoots(t *testing.T) {
	c.roots = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(c.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
}

// checks makes three proofs in a world.
func (c *command) checks(t *testing.T, which string, chance *rand.Rand) {
	enterNetwork(t)
	w := newHostileWorld(t, chance)
	c.listen(w)
	for range 3 {
		w.change()
		v := w.judged(which, func() dnscheck.Verdict { return c.check(w) })
		c.mu.Lock()
		c.verdicts[verdictIn{w.calm, w.published.Load(), v.State}]++
		c.mu.Unlock()
	}
}

// enterNetwork moves this goroutine and its child processes to a new network namespace, in
// which every address is local. The goroutine stays locked to its thread, so that both end
// together.
func enterNetwork(t *testing.T) {
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"link set lo up", "route add local default dev lo",
		"-6 route add local default dev lo"} {
		said, err := exec.CommandContext(t.Context(), os.Getenv(insideVar), strings.Fields(args)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, said)
		}
	}
}

// listen opens the sockets of the world's servers. Each resolver uses HTTPS with probability
// one half.
func (c *command) listen(w *hostileWorld) {
	for addr, z := range w.servers {
		at := netip.AddrPortFrom(netip.MustParseAddr(addr), 53).String()
		packets, err := anyAddress.ListenPacket(w.t.Context(), "udp", at)
		if err != nil {
			w.t.Fatal(err)
		}
		serveOn(w.t, packets, listenTCP(w.t, at), z.udp, z.tcp)
	}
	for i := range w.config.Resolvers {
		r := &w.config.Resolvers[i]
		if w.oneIn(2) {
			continue
		}
		z := w.servers[r.Addr.Addr().String()]
		r.Addr, r.Transport = netip.AddrPortFrom(r.Addr.Addr(), 443), "https"
		cert := c.issue(func(cert *x509.Certificate) { cert.IPAddresses = []net.IP{r.Addr.Addr().AsSlice()} })
		postsOn(w.t, listenTCP(w.t, r.Addr.String()), cert, true, z.post)
	}
}

// anyAddress listens at addresses that no interface has, which needs IP_FREEBIND for IPv6.
var anyAddress = net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
	var set error
	err := conn.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_FREEBIND, 1)
	})
	return errors.Join(err, set)
}}

func listenTCP(t *testing.T, at string) net.Listener {
	listener, err := anyAddress.Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// check runs enqueue to check the token.
func (c *command) check(w *hostileWorld) dnscheck.Verdict {
	var resolvers []string
	for _, r := range w.config.Resolvers {
		resolvers = append(resolvers, r.String())
	}
	cmd := exec.CommandContext(w.t.Context(), c.enqueue, "--json", "domains", "check", "--host", host, "--txt", token,
		"--resolvers", strings.Join(resolvers, ","), "--dns-mode", w.config.Mode.String())
	cmd.Env = []string{"SSL_CERT_FILE=" + c.roots}
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	err := cmd.Run() // also fails if the token is absent
	var found report.Evidence
	if json.Unmarshal(said.Bytes(), &found) != nil {
		w.t.Fatalf("%s: %v: %s%s", cmd, err, &said, &complaint)
	}
	v := dnscheck.Verdict{Reason: dnscheck.Reason(found.Reason), Note: said.String()}
	for _, state := range []dnscheck.State{dnscheck.Present, dnscheck.Absent} {
		if found.State == state.String() {
			v.State = state
		}
	}
	return v
}
