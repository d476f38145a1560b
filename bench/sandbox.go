package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"orgops/internal/sandbox"
)

// sandboxCommand makes of this program the sandbox, in a process of its own,
// so that its work is not taken for the worker's.
const sandboxCommand = "sandbox"

// resolvers is how many addresses the zone is answered for: as many as a
// worker asks by default, for a quorum of two.
const resolvers = 3

// endpoint is the first line that the sandbox's process writes.
type endpoint struct {
	BaseURL      string   `json:"base_url"`
	AuthURL      string   `json:"auth_url"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Resolvers    []string `json:"resolvers"`
}

// usage is the answer to each line on its stdin.
type usage struct {
	CPU time.Duration `json:"cpu_nanoseconds"`
}

// tenantFlags are the arguments of the sandbox's process: the limit of its tenant; none
// by default.
type tenantFlags struct {
	Rate  float64 `noenv:"true" help:"Requests a second."`
	Burst int     `noenv:"true" help:"Requests at once."`
}

// serveSandbox is the sandbox's process. It ends when its stdin does, also
// where whoever started it was killed.
func serveSandbox(f tenantFlags, stdin io.Reader, stdout io.Writer) (err error) {
	box, err := sandbox.Start(sandbox.Options{Resolvers: resolvers, Rate: f.Rate, Burst: f.Burst})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	answers := json.NewEncoder(stdout)
	err = answers.Encode(endpoint{
		BaseURL: box.BaseURL(), AuthURL: box.AuthURL(), ClientID: box.ClientID(), ClientSecret: box.ClientSecret(),
		Resolvers: box.DNSAddrs(),
	})
	for asked := bufio.NewScanner(stdin); err == nil && asked.Scan(); { // its end: who has started it is gone
		err = answers.Encode(usage{processCPU(os.Getpid())})
	}
	return err
}

// tenant is the sandbox's process, seen from here.
type tenant struct {
	endpoint

	process *exec.Cmd
	ask     io.WriteCloser
	answers *json.Decoder
}

// withTenant calls use with a fresh sandbox, which is started with these arguments, and an empty
// Redis.
func withTenant(ctx context.Context, s *store, stderr io.Writer, use func(t *tenant) error,
	args ...string) (err error) {
	if err := s.empty(ctx); err != nil {
		return err
	}
	t, err := startTenant(stderr, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	return use(t)
}

// limited are the arguments of a sandbox with that limit.
func limited(rate, burst int) []string {
	return []string{fmt.Sprintf("--rate=%d", rate), fmt.Sprintf("--burst=%d", burst)}
}

// startTenant starts this program as the sandbox, with these arguments. Close it.
func startTenant(stderr io.Writer, args ...string) (*tenant, error) {
	program, err := executable()
	if err != nil {
		return nil, err
	}
	t := &tenant{process: exec.Command(program, append([]string{sandboxCommand}, args...)...)}
	t.process.Stderr = stderr
	ask, err := t.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	answers, err := t.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	if err := t.process.Start(); err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	t.ask, t.answers = ask, json.NewDecoder(answers)
	if err := t.answers.Decode(&t.endpoint); err != nil {
		return nil, errors.Join(fmt.Errorf("the sandbox did not start: %w", err), t.close())
	}
	return t, nil
}

func (t *tenant) close() error {
	closed := t.ask.Close()
	return errors.Join(closed, t.process.Wait())
}

// cpu is the processor time that the sandbox has used so far.
func (t *tenant) cpu() (time.Duration, error) {
	var u usage
	if _, err := io.WriteString(t.ask, "\n"); err != nil {
		return 0, fmt.Errorf("ask the sandbox: %w", err)
	}
	if err := t.answers.Decode(&u); err != nil {
		return 0, fmt.Errorf("read the sandbox's answer: %w", err)
	}
	return u.CPU, nil
}

// seed adds n records and returns the input file for them: file is domains, whose tokens are
// published, unpublished, updates or clients. See the sandbox for the format of each.
func (t *tenant) seed(ctx context.Context, file string, n int) ([]byte, error) {
	return t.get(ctx, fmt.Sprintf("rows/%s.csv?n=%d", file, n))
}

// get asks the sandbox's controls.
func (t *tenant) get(ctx context.Context, path string) ([]byte, error) {
	body, status, err := get(ctx, t.AuthURL+"/_sandbox/"+path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the sandbox for %s: %w", path, err)
	}
	return body, nil
}

// row is a domain to verify: the two ids.
type row struct{ organization, domain string }

// rowsOf reads an input file of seed.
func rowsOf(file io.Reader) ([]row, error) {
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the seeded rows: %w", err)
	}
	rows := make([]row, 0, len(records))
	for _, r := range records[1:] {
		rows = append(rows, row{organization: r[0], domain: r[1]})
	}
	return rows, nil
}
