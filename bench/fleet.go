package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// shipped is cmd/worker, built and run as a process, as users run it: with its pages and
// metrics.
type shipped struct {
	log, program string
	env          []string
	process      *exec.Cmd // nil: none runs

	probes string // base URL of its metrics and readiness; see listen
}

// fleet are workers that serve the same tenants.
type fleet []*shipped

// served is a tenant of a fleet, by its name there.
type served struct {
	tenant      *tenant
	name        string
	rate, burst int // requests a second, and at once; 0: no limit
	reserve     int // percent
}

// startFleet starts so many workers, with the servers of their pages and probes, and waits until
// they are ready. The caller closes the fleet, also after an error.
func startFleet(ctx context.Context, s *store, workers int, tenants []served) (f fleet, err error) {
	config, env := fleetConfig(tenants)
	env = append(env, "ORGOPS_REDIS_URL="+s.url)
	program, err := s.worker(ctx)
	if err != nil {
		return nil, err
	}
	for range workers {
		dir, err := os.MkdirTemp(s.dir, "worker-")
		if err != nil {
			return f, fmt.Errorf("folder for a worker: %w", err)
		}
		w := &shipped{log: filepath.Join(dir, "log"), program: program}
		f = append(f, w)
		file := filepath.Join(dir, "tenants.yaml")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return f, fmt.Errorf("file of tenants: %w", err)
		}
		w.env = append(slices.Clone(env), "ORGOPS_CONFIG="+file)
		if err := errors.Join(w.listen(ctx), w.start()); err != nil {
			return f, err
		}
	}
	for _, w := range f {
		if err := w.awaitReady(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}

// worker builds cmd/worker, once, and returns its path.
func (s *store) worker(ctx context.Context) (program string, err error) {
	program = filepath.Join(s.dir, "worker")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "orgops").Output()
	if err != nil {
		return "", fmt.Errorf("go list, in the directory bench: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(module)), "-o", program,
		"./cmd/worker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the worker: %w: %s", err, out)
	}
	return program, nil
}

// stop sends all workers SIGTERM, and waits for their end.
func (f fleet) stop() error {
	var g errgroup.Group
	for _, w := range f {
		g.Go(w.stop)
	}
	return g.Wait()
}

// close kills the workers that run.
func (f fleet) close() (err error) {
	for _, w := range f {
		err = errors.Join(err, w.end(syscall.SIGKILL))
	}
	return err
}

// said returns the last log line of each worker as an error, to be joined with another one.
func (f fleet) said() (err error) {
	for _, w := range f {
		err = errors.Join(err, w.said())
	}
	return err
}

// fleetConfig returns a file of tenants, in JSON, which YAML includes, and the variables with
// their secrets.
func fleetConfig(tenants []served) (file []byte, secrets []string) {
	type member map[string]any
	var members []member
	for i, t := range tenants {
		variable := fmt.Sprintf("ORGOPS_BENCH_SECRET_%d", i)
		secrets = append(secrets, variable+"="+t.tenant.ClientSecret)
		m := member{
			"name": t.name, "base_url": t.tenant.BaseURL, "auth_url": t.tenant.AuthURL,
			"client_id": t.tenant.ClientID, "client_secret_env": variable, "resolvers": t.tenant.Resolvers,
			"dns_mode": "resolvers",
			"rate":     fmt.Sprintf("%d/s", t.rate), "burst": t.burst, "reserve": t.reserve,
		}
		if t.rate == 0 {
			m["rate"], m["burst"] = "unlimited", 1
		}
		members = append(members, m)
	}
	file, err := json.Marshal(member{"tenants": members})
	if err != nil {
		panic(err) // strings and maps always have a JSON form
	}
	return file, secrets
}

// listen has the worker serve its pages and its probes at free ports.
func (w *shipped) listen(ctx context.Context) error {
	pages, err := freePort(ctx)
	if err != nil {
		return err
	}
	probes, err := freePort(ctx)
	if err != nil {
		return err
	}
	w.probes = "http://127.0.0.1:" + probes
	w.env = append(w.env, "ORGOPS_HTTP_ADDR=127.0.0.1:"+pages, "ORGOPS_PROBE_ADDR=127.0.0.1:"+probes)
	return nil
}

// awaitReady waits until a worker that listens is ready.
func (w *shipped) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workerUp)
	defer cancel()
	for {
		_, status, err := get(ctx, w.probes+"/readyz")
		if err == nil && status == http.StatusOK {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("the worker is not ready after %s: GET /readyz: status %d", workerUp, status),
				err, w.said())
		}
	}
}

// workerUp is how long a worker may take to be ready.
const workerUp = time.Minute

func (w *shipped) start() error {
	log, err := os.OpenFile(w.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("the worker's log: %w", err)
	}
	process := exec.Command(w.program)
	process.Env, process.Stderr = w.env, log
	err = errors.Join(process.Start(), log.Close())
	if err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	w.process = process
	return nil
}

// end sends the signal, and waits for the worker's end.
func (w *shipped) end(signal syscall.Signal) error {
	if w.process == nil {
		return nil
	}
	process := w.process
	w.process = nil
	if err := process.Process.Signal(signal); err != nil {
		return fmt.Errorf("end the worker: %w", err)
	}
	err := process.Wait()
	if signal == syscall.SIGKILL {
		return nil // its error is that it was killed
	}
	return err
}

func (w *shipped) stop() error { return w.end(syscall.SIGTERM) }

// said returns the worker's last log line as an error, to be joined with another one.
func (w *shipped) said() error { return fmt.Errorf("the worker said last: %.500q", lastLine(w.log)) }

// get reads a page and returns it with its status.
func get(ctx context.Context, url string) (body []byte, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("GET %s: %w", url, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("GET %s: %w", url, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if body, err = io.ReadAll(answer.Body); err != nil {
		err = fmt.Errorf("GET %s: %w", url, err)
	}
	return body, answer.StatusCode, err
}
