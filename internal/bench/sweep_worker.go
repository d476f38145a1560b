package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"orgops/internal/runs"
)

// shipped is cmd/worker, built and run as a process: what is measured is what is
// shipped, with its pages and metrics.
type shipped struct {
	dir, log string
	env      []string
	process  *exec.Cmd // nil: none runs

	pages, probes string // base URLs of its pages, and of its metrics and readiness; see listen

	cpu  time.Duration // of all processes so far that have ended
	peak int64         // bytes; of any of them the most
}

// buildWorker builds a worker with that environment. Close it.
func buildWorker(ctx context.Context, env ...string) (*shipped, error) {
	dir, err := os.MkdirTemp("", "orgops-bench-")
	if err != nil {
		return nil, fmt.Errorf("folder for the worker: %w", err)
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", dir, "orgops/cmd/worker").CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("build the worker: %w: %s", err, out), os.RemoveAll(dir))
	}
	return &shipped{dir: dir, log: filepath.Join(dir, "log"), env: env}, nil
}

// sweeper builds a worker for that tenant and Redis whose sweeps may use all of the rate.
func sweeper(ctx context.Context, s *store, l sweepLoad, t *tenant) (*shipped, error) {
	return buildWorker(ctx, append(t.workerEnv(s, l.Rate, l.Rate), "ORGOPS_DNS_MODE=resolvers", "ORGOPS_RESERVE=0", "ORGOPS_SWEEP_SHARE=100")...)
}

// workerEnv is the environment of a worker for this tenant, with that limit.
func (t *tenant) workerEnv(s *store, rate, burst int) []string {
	return []string{
		"ORGOPS_REDIS_URL=" + s.url, "ORGOPS_BASE_URL=" + t.BaseURL, "ORGOPS_AUTH_URL=" + t.AuthURL,
		"ORGOPS_CLIENT_ID=" + t.ClientID, "ORGOPS_CLIENT_SECRET=" + t.ClientSecret,
		"ORGOPS_RESOLVERS=" + strings.Join(t.Resolvers, ","),
		fmt.Sprintf("ORGOPS_RATE=%d/s", rate), fmt.Sprintf("ORGOPS_BURST=%d", burst),
		"ORGOPS_HTTP_ADDR=off", "ORGOPS_PROBE_ADDR=127.0.0.1:0",
	}
}

func (w *shipped) start() error {
	log, err := os.OpenFile(w.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("the worker's log: %w", err)
	}
	process := exec.Command(filepath.Join(w.dir, "worker"))
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
	w.peak = max(w.peak, peakMemory(process.Process.Pid))
	if err := process.Process.Signal(signal); err != nil {
		return fmt.Errorf("end the worker: %w", err)
	}
	err := process.Wait()
	w.cpu += process.ProcessState.UserTime() + process.ProcessState.SystemTime()
	if signal == syscall.SIGKILL {
		return nil // its error is that it was killed
	}
	return err
}

func (w *shipped) stop() error { return w.end(syscall.SIGTERM) }

func (w *shipped) close() error { return errors.Join(w.end(syscall.SIGKILL), os.RemoveAll(w.dir)) }

// killAt kills the worker once so many rows are settled, and starts another.
func (w *shipped) killAt(ctx context.Context, s *store, settled int64) error {
	for ledger := runs.New(s.admin); ; {
		run, err := ledger.Get(ctx, sweepRun)
		if err != nil {
			return err
		}
		if run.Ended() {
			return errors.New("the sweep had ended before the worker was killed: take more organizations")
		}
		if run.Settled >= settled {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d rows are settled: %w", run.Settled, settled, err)
		}
	}
	if err := w.end(syscall.SIGKILL); err != nil {
		return err
	}
	return w.start()
}

// said is what the worker's log says last, as an error beside another one.
func (w *shipped) said() error { return fmt.Errorf("the worker said last: %.500q", lastLine(w.log)) }
