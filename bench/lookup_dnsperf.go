package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// dnsperf asks for the same names in the same server. It reads no more of an
// answer than its header, and sends from as many ports as it has clients.
type dnsperf struct {
	program string
	server  *nameServer
	load    lookupLoad
}

// dnsperfModes are its names for the transports.
var dnsperfModes = map[string]string{"udp": "udp"}

// options are what it is told beside server, port and input: EDNS as we have it, as
// many queries out as we have, over as many connections. A second thread would
// take a core from the server.
func (d dnsperf) options(transport string) []string {
	return []string{
		"-m", dnsperfModes[transport], "-c", strconv.Itoa(dnsperfClients), "-T", "1",
		"-q", strconv.Itoa(d.load.Concurrency), "-e", "-l", strconv.Itoa(d.load.Seconds),
	}
}

// dnsperfClients is how many connections it has: as many as our Checker keeps to
// one resolver under load.
const dnsperfClients = 4

func (d dnsperf) look(ctx context.Context, transport string) (lookupResult, error) {
	args := append(d.options(transport), "-s", "127.0.0.1", "-p", strconv.Itoa(int(d.server.plain.Port())), "-d", d.server.queries)
	cmd := exec.CommandContext(ctx, d.program, args...)
	var said, complained bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complained
	if err := cmd.Run(); err != nil {
		return lookupResult{}, fmt.Errorf("%s: %w: %q", cmd, err, lastOf(complained.Bytes()))
	}
	r, err := readDnsperf(said.Bytes())
	if err != nil {
		return lookupResult{}, fmt.Errorf("%s: %w", cmd, err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.CPU = used.Seconds()
	return r, nil
}

// Lines of its report. What did not come back as NOERROR is an error.
var (
	dnsperfSent    = regexp.MustCompile(`(?m)^\s*Queries sent:\s+(\d+)`)
	dnsperfGood    = regexp.MustCompile(`(?m)^\s*Response codes:\s.*\bNOERROR (\d+)`)
	dnsperfSeconds = regexp.MustCompile(`(?m)^\s*Run time \(s\):\s+([\d.]+)`)
)

func readDnsperf(said []byte) (lookupResult, error) {
	var numbers [3]float64
	for i, line := range []*regexp.Regexp{dnsperfSent, dnsperfGood, dnsperfSeconds} {
		found := line.FindSubmatch(said)
		if found == nil {
			return lookupResult{}, fmt.Errorf("its report has no line %s: %q", line, lastOf(said))
		}
		var err error
		if numbers[i], err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			return lookupResult{}, fmt.Errorf("its report: %w", err)
		}
	}
	sent, good, seconds := numbers[0], numbers[1], numbers[2]
	return newLookupResult(int(good), int(sent-good), time.Duration(seconds*float64(time.Second))), nil
}

// lastOf is the end of what a program wrote, to be quoted.
func lastOf(said []byte) []byte {
	const most = 300
	said = bytes.TrimSpace(said)
	return said[max(0, len(said)-most):]
}
