// Package orgops_test holds what concerns the module as a whole.
package orgops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/types"
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

// rooms are all packages, and what each imports of this module: internal/ is left out, and * is
// anything. Imports have one direction: apiclient and dnscheck, and the packages that store
// something, import nothing of this module but untrusted, which shows text from outside, stamp,
// which shows times, ids, and the packages of their own objects, so that each can be used and
// understood by itself. The core executes rows by their kinds, and does not import tasks, which
// describes what can be submitted. The sandbox is a second opinion on the specification: it shares
// no code about it.
var rooms = map[string]string{
	"apiclient":               "apiclient/schema stamp untrusted",
	"cmd/enqueue":             "*",
	"cmd/worker":              "*",
	"dnscheck":                "dnscheck/dnsname dnscheck/internal/fake dnscheck/report untrusted",
	"dnscheck/dnschecktest":   "dnscheck dnscheck/internal/fake",
	"dnscheck/dnsname":        "untrusted",
	"dnscheck/internal/fake":  "",
	"internal/actions":        "activity deliveries intake ledger pace remedy rowfile scan/progress stamp status sweep sweep/schedule tenant tasks",
	"internal/backoff":        "",
	"internal/cli":            "apiclient remedy spelling untrusted",
	"internal/console":        "apiclient apiclient/schema dnscheck dnscheck/dnsname actions activity customer deliveries discovery health ids intake ledger meters obstacle redisconn remedy results rowfile scan/progress status untrusted view web webhooks tasks",
	"internal/activity":       "redisconn untrusted",
	"internal/customer":       "dnscheck dnscheck/dnsname dnscheck/report actions cli ledger remedy stamp status untrusted view web tasks",
	"internal/deliveries":     "backoff events queues untrusted webhooks",
	"internal/dispatch":       "engine ledger obstacle pace queues release workers",
	"internal/engine":         "apiclient apiclient/schema dnscheck backoff ledger untrusted",
	"internal/enginetest":     "engine ledger redistest",
	"internal/events":         "untrusted",
	"internal/discovery":      "apiclient/schema",
	"internal/evidence":       "apiclient/schema dnscheck/dnsname dnscheck/report discovery ledger stamp untrusted tasks",
	"internal/index":          "apiclient/schema dnscheck/dnsname dnscheck/report discovery ledger tasks",
	"internal/release":        "obstacle",
	"internal/untrusted":      "",
	"internal/health":         "apiclient dnscheck ledger obstacle pace redisconn remedy stamp status tenant untrusted tasks",
	"internal/ids":            "untrusted",
	"internal/httpapi":        "actions cli customer ids intake ledger redisconn remedy results rowfile status untrusted view web tasks",
	"internal/intake":         "activity evidence ids index ledger redisconn remedy results rowfile scan/progress untrusted tasks",
	"internal/ledger":         "ids untrusted",
	"internal/ledgertest":     "ledger",
	"internal/logtest":        "",
	"internal/meters":         "",
	"internal/metrics":        "apiclient health ledger pace queues redisconn status sweep tenant",
	"internal/otlptest":       "",
	"internal/obstacle":       "pace remedy stamp",
	"internal/pace":           "stamp untrusted",
	"internal/provider":       "dnscheck/dnsname",
	"internal/queues":         "ids",
	"internal/redisconn":      "untrusted",
	"internal/redistest":      "redisconn",
	"internal/remedy":         "",
	"internal/reference":      "cli",
	"internal/results":        "dnscheck/dnsname dnscheck/report evidence ledger remedy rowfile stamp untrusted tasks",
	"internal/rowfile":        "spelling untrusted tasks",
	"internal/sandbox":        "untrusted",
	"internal/scan":           "apiclient apiclient/schema discovery engine ledger scan/progress untrusted tasks tasks/handlers",
	"internal/scan/progress":  "",
	"internal/simulation":     "",
	"internal/spelling":       "",
	"internal/stamp":          "",
	"internal/status":         "apiclient/schema dnscheck dnscheck/dnsname dnscheck/report activity cli deliveries discovery evidence ids index ledger meters obstacle pace provider queues redisconn remedy results scan/progress stamp sweep tenant untrusted tasks tasks/releases",
	"internal/sweep":          "dnscheck dnscheck/dnsname dnscheck/report discovery events scan/progress stamp untrusted",
	"internal/sweep/schedule": "intake ledger scan/progress stamp sweep",
	"internal/tenant":         "apiclient apiclient/schema dnscheck dnscheck/dnsname cli deliveries ids ledger pace sweep untrusted webhooks",
	"internal/terminal":       "evidence ledger stamp status",
	"internal/tracing":        "dnscheck untrusted",
	"internal/view":           "actions activity deliveries health ids intake ledger meters obstacle pace redisconn results stamp status tenant untrusted web tasks",
	"internal/viewtest":       "activity discovery index ledger ledgertest queues redistest tenant web",
	"internal/web":            "cli ids untrusted tasks",
	"internal/webhooks":       "apiclient dnscheck cli events ids untrusted web",
	"internal/workers":        "ledger",
	"producer":                "activity evidence ledger rowfile untrusted tasks",
	"tasks":                   "apiclient/schema dnscheck/dnsname discovery ids untrusted",
	"tasks/handlers":          "apiclient apiclient/schema dnscheck dnscheck/dnsname dnscheck/report activity backoff discovery engine events evidence index ledger pace stamp sweep untrusted tasks",
	"internal/surface":        "apiclient apiclient/schema dnscheck dnscheck/dnschecktest dnscheck/report actions activity cli deliveries engine events index intake ledger ledgertest meters pace redistest reference scan scan/progress status sweep tenant webhooks producer tasks tasks/handlers",
	"tasks/releases":          "apiclient/schema ledger release tasks",
	"apiclient/schema":        "untrusted",
	"dnscheck/report":         "dnscheck/dnsname",
}

// TestImportsMatchTheTable compares the packages with rooms, in both directions: an import that is
// not used any more is removed from the table.
func TestImportsMatchTheTable(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,GoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	left := maps.Clone(rooms)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ImportPath       string
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
		want, ok := rooms[name]
		if !ok {
			t.Errorf("%s: add its imports to rooms, and its purpose to ARCHITECTURE.md", name)
		}
		delete(left, name)
		var imports []string
		for _, path := range pkg.Imports {
			if own, ok := strings.CutPrefix(path, module+"/"); ok {
				imports = append(imports, strings.TrimPrefix(own, "internal/"))
			}
		}
		if got := strings.Join(imports, " "); want != "*" && got != want {
			t.Errorf("%s imports %q, want %q", name, got, want)
		}
	}
	for name := range left {
		t.Errorf("%s: there is no such package", name)
	}
}

// TestMapNamesEachPackage checks that the map of ARCHITECTURE.md has a line for each package.
func TestMapNamesEachPackage(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range rooms {
		if name != "dnscheck/internal/fake" && !strings.Contains(string(text), "\n"+name+"/ ") {
			t.Errorf("ARCHITECTURE.md: the map has no %s/", name)
		}
	}
}

// TestLeafPackagesImportNoQueue: apiclient and dnscheck know no queue and no Redis, directly or
// not, and neither does what reads and writes files of rows.
func TestLeafPackagesImportNoQueue(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./apiclient", "./dnscheck",
		"./internal/rowfile").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.Lines(string(out)) {
		for _, unwanted := range []string{"github.com/hibiken/", "github.com/redis/", "github.com/alicebob/"} {
			if strings.HasPrefix(path, unwanted) {
				t.Errorf("apiclient, dnscheck or internal/rowfile depends on %s", strings.TrimSpace(path))
			}
		}
	}
}

// TestReaders: packages that read stored data depend on none that executes rows, and what reads
// stored rows, and describes runs, on none that submits any or acts on them. A service that submits
// rows with package producer compiles no queue, schedule, source of tokens and DNS codec either.
// Pages and the HTTP API compile no text for terminals.
func TestReaders(t *testing.T) {
	executing := []string{module + "/internal/engine", module + "/internal/dispatch", module + "/tasks/handlers"}
	notShown := append(slices.Clone(executing), module+"/internal/terminal", "github.com/vbauerster/mpb/v8")
	of := map[string][]string{
		"./internal/console":  notShown,
		"./internal/customer": notShown,
		"./internal/httpapi":  notShown,
		"./internal/results":  append(slices.Clone(executing), module+"/internal/intake"),
		"./internal/status": append(slices.Clone(notShown), module+"/internal/intake", module+"/internal/actions",
			module+"/internal/sweep/schedule"),
		"./producer": append(slices.Clone(executing), "github.com/hibiken/asynq", "github.com/robfig/cron/v3",
			"golang.org/x/oauth2", "github.com/miekg/dns", module+"/apiclient", module+"/dnscheck"),
	}
	for name, unwanted := range of {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", name).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", name, err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			if slices.Contains(unwanted, path) {
				t.Errorf("%s depends on %s", name, path)
			}
		}
	}
}

// TestHandlersHaveAView: in the packages of handlers the data of tenants is in none of their types,
// so that a handler reads and changes what the view of its user has, and only package view asks for
// the tenants and organizations of an entry.
func TestHandlersHaveAView(t *testing.T) {
	holders := map[string][]string{
		// The queues of asynqmon are for users without limits. A notice is its user's.
		"internal/console": {"Config", "connOpt", "monitor", "notices", "withoutMemory"},
		// The rows of a day are counted by the caller's name.
		"internal/httpapi": {"Config", "dailyRows"},
	}
	data := regexp.MustCompile(`^(redis\.UniversalClient|redis\.Cmdable|\*ledger\.Ledger|intake\.Intake)$`)
	for name, want := range holders {
		var got []string
		for _, file := range parseFiles(t, name) {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
					return data.MatchString(types.ExprString(f.Type))
				}) {
					got = append(got, spec.Name.Name)
				}
				return true
			})
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the types %q have Redis, the ledger or an intake, want %q: give handlers a view", name, got, want)
		}
	}
	for name := range rooms {
		for file, parsed := range parseFiles(t, name) {
			ast.Inspect(parsed, func(n ast.Node) bool {
				asked, ok := n.(*ast.SelectorExpr)
				if ok && (asked.Sel.Name == "MayTenant" || asked.Sel.Name == "MayOrganization") &&
					name != "internal/view" && name != "internal/web" {
					t.Errorf("%s/%s: %s is for package view", name, file, types.ExprString(asked))
				}
				return true
			})
		}
	}
}

// TestClients: packages that neither make clients nor import asynq, which reaches them too, take
// only commands of go-redis. See the documentation of internal/redisconn.
func TestClients(t *testing.T) {
	makes := []string{"cmd/enqueue", "internal/redisconn", "internal/redistest"}
	reaching := regexp.MustCompile(`^redis\.(New)?(UniversalClient|Client|ClusterClient|PubSub|Tx|Conn|(Universal)?Options)$`)
	for name := range rooms {
		files := parseFiles(t, name)
		asynq := false
		for _, parsed := range files {
			asynq = asynq || slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool {
				return i.Path.Value == `"github.com/hibiken/asynq"`
			})
		}
		if asynq || slices.Contains(makes, name) {
			continue
		}
		for file, parsed := range files {
			ast.Inspect(parsed, func(n ast.Node) bool {
				named, ok := n.(*ast.SelectorExpr)
				if ok && reaching.MatchString(types.ExprString(named)) {
					t.Errorf("%s/%s: %s: take redis.Cmdable, or a function of redisconn: see its documentation", name, file,
						types.ExprString(named))
				}
				return true
			})
		}
	}
}

// TestProofsNeedDNS checks that nothing that is built into a command makes a proof without DNS.
func TestProofsNeedDNS(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/...", "./producer").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	const kit = module + "/dnscheck/dnschecktest"
	if slices.Contains(strings.Fields(string(out)), kit) {
		t.Errorf("%s makes proofs without DNS, and is imported by a command", kit)
	}
}

// TestOnlyCommandsReadTheEnvironment: only cmd reads the environment, handles signals and ends the
// process. Elsewhere that cannot be tested, or surprises.
func TestOnlyCommandsReadTheEnvironment(t *testing.T) {
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
