package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/otlptest"
	"orgops/internal/redistest"
	"orgops/tasks"
)

// TestTraceOfARow checks that the execution of a row which enqueue submits and a worker
// verifies is a trace that links to the submission, without secrets or untrusted text.
func TestTraceOfARow(t *testing.T) {
	t.Parallel()
	redistest.NeedsLong(t, "builds the commands")
	f := assembleOn(newDesk(t), redistest.URL(t))
	collector := otlptest.Start(t)
	f.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.URL
	f.env["ORGOPS_LOG_LEVEL"] = "debug"
	worker := f.work("w")
	file := filepath.Join(f.dir, "rows.csv")
	write(t, file, string(f.box.SeedDomains(1)))
	f.typed("domains", "verify", "--run", "job", file)
	f.ended("job")
	worker.signal(syscall.SIGTERM) // the worker exports its remaining spans
	if err := worker.wait(patience); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	spans := collector.Spans()
	byID, byName := map[string]otlptest.Span{}, map[string]otlptest.Span{}
	for _, s := range spans {
		byID[s.ID], byName[s.Name] = s, s
	}
	execution := byName["process domain:verify"]
	if !slices.Equal(execution.Links, []string{byName["submit"].Trace}) ||
		execution.Attributes["orgops.outcome"] != "done" || execution.Attributes["orgops.run"] != "job" ||
		execution.Attributes["orgops.row"] != "0" {
		t.Errorf("the execution says %+v, want a link to %+v", execution, byName["submit"])
	}
	below := map[string]bool{}
	for _, s := range spans {
		parent := byID[s.Parent]
		below[fmt.Sprintf("%s %s < %s", s.Service, s.Name, parent.Name)] = true
	}
	want := []string{
		"orgops-enqueue submit < ",
		"orgops-worker dns check < process domain:verify",
		"orgops-worker dns prove < process domain:verify",
		"orgops-worker get_discovery_domain < process domain:verify",
		"orgops-worker permit < process domain:verify",
		"orgops-worker process domain:verify < ",
		"orgops-worker update_discovery_domain < process domain:verify",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(below))); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		if s.Name == "update_discovery_domain" && s.Attributes["http.response.status_code"] != "200" {
			t.Errorf("the PATCH says %v", s.Attributes)
		}
	}
	f.wantTraceInLog(execution.Trace)
	for _, d := range domainsOf(f.state()) {
		for what, secret := range map[string]string{"token": d.TXT, "client's secret": f.env["ORGOPS_CLIENT_SECRET"]} {
			if secret == "" || strings.Contains(collector.Raw(), secret) {
				t.Errorf("the %s %q is in the traces, or there is none", what, secret)
			}
		}
	}
}

// wantTraceInLog checks that the worker's log lines of tasks name the trace.
func (f *fleet) wantTraceInLog(trace string) {
	f.t.Helper()
	n := 0
	for _, line := range f.log("w") {
		if line["msg"] != "task" || line["type"] != tasks.TypeVerify {
			continue
		}
		if n++; line["trace_id"] != trace {
			f.t.Errorf("line %v, want trace %s", line, trace)
		}
	}
	if n != 1 {
		f.t.Errorf("%d lines of tasks, want one", n)
	}
}
