package main

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"orgops/internal/cli"
	"orgops/internal/redistest"
)

// TestSoak checks the form of the results: a minute is too short to find a leak.
func TestSoak(t *testing.T) {
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("an embedded Redis tells neither its memory nor its clients: set " + redistest.EnvURL)
	}
	redistest.Single(t, ofACluster)
	if testing.Short() {
		t.Skip("takes a minute")
	}
	status, out, errs := typed(t, "soak", "--minutes", "1", "--tenants", "1", "--every", "20s", "--keep", "0s", "--rows", "10", "--json", "--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	all := slices.Collect(strings.Lines(out))
	if len(all) != 4 {
		t.Fatalf("%d results, want three samples and one more: %s", len(all), out)
	}
	for _, line := range all[:3] {
		var s soakSample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		for _, measure := range []string{"memory, MB", "heap, MB", "goroutines", "descriptors", "series"} {
			if s.Measures["worker 1 "+measure] <= 0 || s.Measures["worker 2 "+measure] <= 0 {
				t.Errorf("%s: got %v", measure, s.Measures)
			}
		}
		if s.Requests <= 0 || s.Measures["Redis keys"] <= 0 || s.Families["orgops:v2:{run}:header"].Bytes <= 0 {
			t.Errorf("got %+v", s)
		}
	}
	var r soakResult
	if err := json.Unmarshal([]byte(all[3]), &r); err != nil {
		t.Fatal(err)
	}
	if r.Outcomes["done"] <= 0 || r.Failed != 0 || r.Refused != 0 || r.Pages <= 0 || len(r.BadPages) > 0 || r.Requests <= 0 || len(r.Trends) == 0 {
		t.Errorf("got %+v", r)
	}
	if single, file := r.PerRow["single row"], r.PerRow["row of a file"]; single.Keys < 1 || file.Keys > single.Keys || single.Bytes <= 0 {
		t.Errorf("a row that is kept: %v, %v of a file", single, file)
	}
}

func TestTrend(t *testing.T) {
	const samples = 30
	var hours []float64
	for i := range samples {
		hours = append(hours, float64(i)/60)
	}
	tests := []struct {
		name  string
		value func(minute float64) float64
		slope float64 // per hour
		grows bool
	}{
		{"constant", func(float64) float64 { return 100 }, 0, false},
		{"none", func(float64) float64 { return 0 }, 0, false},
		{"a key a minute", func(minute float64) float64 { return 100 + minute }, 60, true},
		{"falls", func(minute float64) float64 { return 100 - minute }, -60, false},
		{"one more in an hour", func(minute float64) float64 { return 10 + minute/60 }, 1, false},
		{"two percent in an hour", func(minute float64) float64 { return 1000 + 20*minute/60 }, 20, false},
		{"a saw", func(minute float64) float64 { return 50 + 20*math.Mod(minute, 3) }, 0, false},
		{"a slow wave", func(minute float64) float64 { return 200 - 50*math.Sin(minute/4) }, 0, false},
		{"a saw that grows", func(minute float64) float64 { return 50 + 20*math.Mod(minute, 3) + 4*minute }, 240, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var values []float64
			for i := range samples {
				values = append(values, tt.value(float64(i)))
			}
			got := trendOf(tt.name, hours, values)
			if got.Grows != tt.grows || math.Abs(got.PerHour-tt.slope) > 2*got.Error+1e-6 {
				t.Errorf("got %+v, want a slope of %v, grows: %t", got, tt.slope, tt.grows)
			}
		})
	}
	if got := trendOf("two samples", hours[:2], []float64{1, 1000}); got.Grows {
		t.Errorf("two samples say nothing: got %+v", got)
	}
}

func TestFamily(t *testing.T) {
	for key, want := range map[string]string{
		"orgops:v2:{run:20261124-144851-abc}:header":                     "orgops:v2:{run}:header",
		"orgops:v2:{tenant:acme}:singles":                                "orgops:v2:{tenant}:singles",
		"orgops:v2:{sessions}:seen":                                      "orgops:v2:{sessions}:seen",
		"orgops:v2:{0fa1b2.0}:chunks":                                    "orgops:v2:{}:chunks",
		"orgops:v1:{tenant:acme}:pace":                                   "orgops:v1:{tenant}:pace",
		"orgops:v1:{watch:acme}:domain:ord_NTC6ExXjNUM91N94wxGrPQ":       "orgops:v1:{watch}:domain:*",
		"asynq:{orgops:acme}:t:0fa1b2.0.17.1":                            "asynq:{orgops}:t:*",
		"asynq:{acme}:processed:2026-11-24":                              "asynq:{}:processed:*",
		"asynq:servers:{host:4711:01234567-89ab-cdef-0123-456789abcdef}": "asynq:servers:{host}",
		"orgops:schema": "orgops:schema",
	} {
		if got := family(key); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}
