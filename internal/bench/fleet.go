package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// served is a tenant of a fleet of workers, by its name there.
type served struct {
	tenant      *tenant
	name        string
	rate, burst int
}

// startFleet builds workers that serve the same tenants and starts them, also the servers of
// their pages and probes. Close those that it returns, also with an error.
func startFleet(ctx context.Context, s *store, workers int, tenants []served) (fleet []*shipped, err error) {
	config, secrets := fleetConfig(tenants)
	for range workers {
		w, err := buildWorker(ctx, append(secrets, "ORGOPS_REDIS_URL="+s.url)...)
		if err != nil {
			return fleet, err
		}
		fleet = append(fleet, w)
		file := filepath.Join(w.dir, "tenants.yaml")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return fleet, fmt.Errorf("file of tenants: %w", err)
		}
		w.env = append(w.env, "ORGOPS_CONFIG="+file)
		if err := errors.Join(w.listen(ctx), w.start()); err != nil {
			return fleet, err
		}
	}
	return fleet, nil
}

// fleetConfig returns a file of tenants, in JSON, which YAML includes, and the variables with
// their secrets.
func fleetConfig(tenants []served) (file []byte, secrets []string) {
	type member map[string]any
	var members []member
	for i, t := range tenants {
		variable := fmt.Sprintf("ORGOPS_BENCH_SECRET_%d", i)
		secrets = append(secrets, variable+"="+t.tenant.ClientSecret)
		members = append(members, member{
			"name": t.name, "base_url": t.tenant.BaseURL, "auth_url": t.tenant.AuthURL,
			"client_id": t.tenant.ClientID, "client_secret_env": variable, "resolvers": t.tenant.Resolvers, "dns_mode": "resolvers",
			"rate": fmt.Sprintf("%d/s", t.rate), "burst": t.burst, "reserve": 0,
		})
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
	w.pages, w.probes = "http://127.0.0.1:"+pages, "http://127.0.0.1:"+probes
	w.env = append(w.env, "ORGOPS_HTTP_ADDR=127.0.0.1:"+pages, "ORGOPS_PROBE_ADDR=127.0.0.1:"+probes)
	return nil
}

// awaitReady waits until a worker that listens is ready.
func (w *shipped) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workerUp)
	defer cancel()
	for {
		_, status, _, err := get(ctx, w.probes+"/readyz")
		if err == nil && status == http.StatusOK {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("the worker is not ready after %s: status %d: %w", workerUp, status, err), w.said())
		}
	}
}

// workerUp is how long a worker may take to be ready.
const workerUp = time.Minute

// get reads a page and returns the time from the request to the last byte, and the status.
func get(ctx context.Context, url string) (body []byte, status int, took time.Duration, err error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("GET %s: %w", url, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("GET %s: %w", url, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if body, err = io.ReadAll(answer.Body); err != nil {
		err = fmt.Errorf("GET %s: %w", url, err)
	}
	return body, answer.StatusCode, time.Since(began), err
}
