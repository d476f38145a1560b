// Package orgops_test holds what concerns the module as a whole.
package orgops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "orgops"

// room is a package: what of this module it may import, and its budget.
type room struct {
	lines   int    // of Go at most, without tests: 5 % more than it had when that was set
	imports string // internal/ is left out; *: anything
}

// rooms are all packages. Imports have one direction: apiclient and dnscheck, and the packages
// that store something, import nothing of this module but untrusted, which shows text from outside,
// so that each can be used and understood by itself. The core executes rows by their kinds, and
// does not import tasks, which describes what can be submitted. The sandbox is a second opinion on
// the specification: it shares no code about it.
var rooms = map[string]room{
	"apiclient":    {3476, "untrusted"},
	"cmd/enqueue":  {3547, "*"},
	"cmd/worker":   {2179, "*"},
	"dnscheck":     {5428, "untrusted"},
	"internal/cli": {980, "apiclient spelling"},
	"internal/console": {
		3116,
		"apiclient dnscheck activity deliveries engine health intake ledger meters redisconn status tenant untrusted web webhooks tasks tasks/handlers",
	},
	"internal/activity":   {250, "redisconn untrusted"},
	"internal/customer":   {610, "dnscheck cli ledger status untrusted web"},
	"internal/deliveries": {1022, "events untrusted webhooks"},
	"internal/dispatch":   {1823, "engine ledger pace workers"},
	"internal/engine":     {1760, "apiclient dnscheck ledger"},
	"internal/events":     {159, "untrusted"},
	"internal/untrusted":  {100, ""},
	"internal/health":     {1320, "apiclient dnscheck ledger pace redisconn status tenant untrusted tasks"},
	"internal/httpapi":    {1814, "activity cli customer engine intake ledger status tenant untrusted web tasks"},
	"internal/intake": {
		3754, "dnscheck activity engine ledger redisconn spelling sweep untrusted tasks tasks/handlers",
	},
	"internal/ledger":     {4584, "untrusted"},
	"internal/ledgertest": {150, "ledger"},
	"internal/logtest":    {50, ""},
	"internal/meters":     {165, ""},
	"internal/metrics":    {654, "apiclient health ledger pace redisconn status sweep tenant"},
	"internal/otlptest":   {150, ""},
	"internal/pace":       {1454, "untrusted"},
	"internal/provider":   {114, ""},
	"internal/queues":     {485, ""},
	"internal/redisconn":  {1004, ""},
	"internal/redistest":  {1013, "redisconn"},
	"internal/reference":  {250, "cli"},
	"internal/sandbox":    {3680, "untrusted"},
	"internal/scan":       {611, "apiclient engine ledger sweep tasks tasks/handlers"},
	"internal/simulation": {50, ""},
	"internal/spelling":   {100, ""},
	"internal/status": {
		3740,
		"dnscheck activity cli deliveries dispatch engine intake ledger pace provider redisconn sweep sweep/schedule tenant untrusted tasks tasks/handlers",
	},
	"internal/sweep":          {1399, "dnscheck events untrusted"},
	"internal/sweep/schedule": {360, "intake ledger sweep"},
	"internal/tenant":         {838, "apiclient dnscheck cli deliveries ledger pace sweep untrusted webhooks tasks"},
	"internal/tracing":        {243, "dnscheck"},
	"internal/web":            {1268, "cli untrusted tasks"},
	"internal/webhooks":       {733, "apiclient dnscheck cli events untrusted web"},
	"internal/workers":        {140, "ledger"},
	"producer":                {260, "activity engine intake ledger tasks tasks/handlers"},
	"tasks":                   {743, "apiclient dnscheck"},
	"tasks/handlers":          {3321, "apiclient dnscheck activity dispatch engine events ledger sweep untrusted tasks"},
}

// TestRooms compares the packages with rooms, in both directions: an import that is not used any
// more is removed from the table.
func TestRooms(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	left := maps.Clone(rooms)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(pkg.GoFiles) == 0 { // only tests
			continue
		}
		name := strings.TrimPrefix(pkg.ImportPath, module+"/")
		room, ok := rooms[name]
		if !ok {
			t.Errorf("%s: add its lines and imports to rooms, and its purpose to ARCHITECTURE.md", name)
		}
		delete(left, name)
		var imports []string
		for _, path := range pkg.Imports {
			if own, ok := strings.CutPrefix(path, module+"/"); ok {
				imports = append(imports, strings.TrimPrefix(own, "internal/"))
			}
		}
		if got := strings.Join(imports, " "); room.imports != "*" && got != room.imports {
			t.Errorf("%s imports %q, want %q", name, got, room.imports)
		}
		if lines := linesOf(t, pkg.Dir, pkg.GoFiles); lines > room.lines {
			t.Errorf("%s has %d lines of Go, want %d at most", name, lines, room.lines)
		}
	}
	for name := range left {
		t.Errorf("%s: there is no such package", name)
	}
}

func linesOf(t *testing.T, dir string, files []string) (lines int) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
	}
	return lines
}

// TestLeaves: apiclient and dnscheck know no queue and no Redis, directly or not.
func TestLeaves(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./apiclient", "./dnscheck").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.Lines(string(out)) {
		for _, unwanted := range []string{"github.com/hibiken/", "github.com/redis/", "github.com/alicebob/"} {
			if strings.HasPrefix(path, unwanted) {
				t.Errorf("apiclient or dnscheck depends on %s", strings.TrimSpace(path))
			}
		}
	}
}

// TestSurroundings: only cmd reads the environment, handles signals and ends the process.
// Elsewhere that cannot be tested, or surprises.
func TestSurroundings(t *testing.T) {
	reach := regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|Exit)\b|\bsignal\.Notify`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "bench/") || strings.HasPrefix(path, ".ci/") ||
			strings.HasPrefix(path, "internal/redistest/") {
			return err
		}
		source, err := os.ReadFile(path)
		if found := reach.Find(source); found != nil {
			t.Errorf("%s uses %s, which is for cmd", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLicences checks the licence of every module that is built into the commands: it must allow to
// pass the module on with them.
func TestLicences(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", `{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}`, "./cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	accepted := regexp.MustCompile(`(?s)Permission is hereby granted, free of charge|Redistribution and use in source and ` +
		`binary forms|Apache License\s+Version 2\.0|Mozilla Public License Version 2\.0|` +
		`Permission to use, copy, modify, and(/or)? distribute this software|This is free and unencumbered software`)
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		module, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || seen[module] {
			continue
		}
		seen[module] = true
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(f fs.DirEntry) bool {
			named := regexp.MustCompile(`(?i)licen[cs]e|copying`).MatchString(f.Name())
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			return named && err == nil && accepted.Match(text)
		}) {
			t.Errorf("%s has no licence that is accepted: see docs/explanation/dependencies.md", module)
		}
	}
	if len(seen) < 20 {
		t.Errorf("found %d modules", len(seen))
	}
}
