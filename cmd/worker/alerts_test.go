package main

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// series are the values of a worker's metrics at /metrics, by their names with labels.
type series struct {
	values map[string]float64
	gauges map[string]bool // by their names alone
}

func (p *process) series() series {
	p.t.Helper()
	s := series{map[string]float64{}, map[string]bool{"process_start_time_seconds": true}}
	_, body := p.page("probe-addr", "/metrics")
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutSuffix(strings.TrimPrefix(line, "# TYPE "), " gauge"); ok {
			s.gauges[name] = true
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil && !math.IsInf(value, 0) {
			s.values[line[:at]] = value
		}
	}
	return s
}

// wantAlerts checks which alerts fire, by promtool, if for two hours each minute is as the time
// between two scrapes was: counters grow as much, and gauges are those of the second. There are
// two such workers.
func wantAlerts(t *testing.T, before, after series, want ...string) {
	t.Helper()
	rules, err := filepath.Abs("../../deploy/prometheus/orgops.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	type input struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	var inputs []input
	for full, value := range after.values {
		name, labels, _ := strings.Cut(strings.TrimSuffix(full, "}"), "{")
		if !strings.Contains(string(text), name) {
			continue
		}
		values := fmt.Sprintf("%fx120", value)
		if first, was := before.values[full]; !after.gauges[name] && was {
			values = fmt.Sprintf("%f+%fx120", first, value-first)
		} else if !after.gauges[name] { // counters appear with their first event
			values = fmt.Sprintf("_x5 %f+%fx114", value, value)
		}
		for _, instance := range []string{"a", "b"} {
			inputs = append(inputs, input{fmt.Sprintf("%s{%s,job=%q,instance=%q}", name, labels, "orgops", instance), values})
			inputs[len(inputs)-1].Series = strings.Replace(inputs[len(inputs)-1].Series, "{,", "{", 1)
		}
	}
	firing := []map[string]any{}
	for _, alert := range want {
		firing = append(firing, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
	}
	tests, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": inputs, "promql_expr_test": []any{
			map[string]any{"expr": `count by (alertname) (ALERTS{alertstate="firing"}) > bool 0`, "eval_time": "100m",
				"exp_samples": firing},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	write(t, file, string(tests))
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestAlertsOfAWorker checks the alert rules on the metrics of a real worker: while it is busy and
// healthy no alert fires, and of each fault the one that it needs.
func TestAlertsOfAWorker(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("needs promtool")
	}
	const rows = 60
	for _, tc := range []struct {
		name   string
		damage func(box *sandbox.Sandbox, d desk) // after half of the rows
		status int                                // of the receiver of webhooks
		until  func(s series, d desk) bool
		want   []string
	}{
		{"busy and healthy", func(*sandbox.Sandbox, desk) {}, http.StatusNoContent, func(_ series, d desk) bool {
			return d.run("second").Ended()
		}, nil},
		{"a bad secret", func(box *sandbox.Sandbox, _ desk) {
			box.AddFault(sandbox.Fault{Operation: sandbox.OpToken, Status: http.StatusUnauthorized,
				Body: `{"error":"access_denied","error_description":"Unauthorized"}`})
			box.AddFault(sandbox.Fault{Status: http.StatusUnauthorized})
		}, http.StatusNoContent, func(s series, _ desk) bool {
			return s.values[`orgops_pace_blocked{operation="*",tenant="default"}`] == 1 &&
				s.values[`orgops_token_ok{tenant="default"}`] == 0
		}, []string{"OrgopsTokenFailing"}},
		{"a missing scope", func(box *sandbox.Sandbox, _ desk) {
			box.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: http.StatusForbidden,
				Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope","errorCode":"insufficient_scope"}`})
		}, http.StatusNoContent, func(s series, _ desk) bool {
			return s.values[`orgops_pace_blocked{operation="update_discovery_domain",tenant="default"}`] == 1
		}, []string{"OrgopsTenantBlocked"}},
		{"refused rows", func(box *sandbox.Sandbox, _ desk) {
			box.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Status: http.StatusNotFound,
				Body: `{"statusCode":404,"error":"Not Found","message":"Not found"}`})
		}, http.StatusNoContent, func(_ series, d desk) bool {
			return d.run("second").Ended()
		}, []string{"OrgopsRowsFailing"}},
		{"a receiver that is gone", func(*sandbox.Sandbox, desk) {}, http.StatusGone, func(s series, _ desk) bool {
			return s.values[`orgops_webhook_deliveries_total{endpoint="crm",outcome="given_up",tenant="default"}`] > 0
		}, []string{"OrgopsWebhooksGivenUp"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
			}))
			t.Cleanup(receiver.Close)
			hooks := filepath.Join(t.TempDir(), "hooks.yaml")
			write(t, hooks, "endpoints:\n  - {name: crm, url: '"+receiver.URL+"', secret_env: HOOK, allow_private: true}\n")
			p := begin(t, pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0",
				"ORGOPS_WEBHOOKS": hooks, "HOOK": hookSecret}))
			d.handIn(ledger.NewRun{ID: "first"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			d.handIn(ledger.NewRun{ID: "domains"}, tasks.TypeVerify, box.SeedDomains(rows))
			d.ended("first")
			d.ended("domains")
			await(t, "the metrics of the first run", func() bool {
				return p.series().values[`orgops_tasks_total{outcome="done",tenant="default",type="domain:update"}`] == rows
			})
			before := p.series()
			tc.damage(box, d)
			d.handIn(ledger.NewRun{ID: "others"}, tasks.TypeVerify, box.SeedDomains(rows))
			d.handIn(ledger.NewRun{ID: "second"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			var after series
			await(t, "the second run, or its fault", func() bool { after = p.series(); return tc.until(after, d) })
			after = p.series()
			wantAlerts(t, before, after, tc.want...)
		})
	}
}
