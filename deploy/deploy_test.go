// Package deploy has no code; its tests hold the files of this directory to each
// other and to what the commands really have.
package deploy

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "prometheus/orgops.rules.yaml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

// TestAlerts: each says how bad it is, what it is and what to do, with labels that
// it has, and has its tests and its page; each page has its alert.
func TestAlerts(t *testing.T) {
	tests := read(t, "prometheus/orgops.rules.test.yaml") + read(t, "prometheus/orgops.rules.days.test.yaml")
	index := read(t, "runbook/README.md")
	pages := map[string]bool{}
	files, err := filepath.Glob("runbook/Orgops*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		pages[strings.TrimSuffix(filepath.Base(file), ".md")] = true
	}
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, a := range alerts(t) {
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no words", a.Alert)
		}
		if want := "deploy/runbook/" + a.Alert + ".md"; a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		for _, used := range label.FindAllStringSubmatch(a.Annotations["summary"]+a.Annotations["description"], -1) {
			// A rule that keeps all labels of a series has those of its target, too.
			if !strings.Contains(a.Expr, used[1]) && (used[1] != "instance" || strings.Contains(a.Expr, " by ")) {
				t.Errorf("%s tells the label %s, which its expression does not give", a.Alert, used[1])
			}
		}
		if !strings.Contains(tests, `alertname="`+a.Alert+`"`) {
			t.Errorf("%s has no test in which it fires", a.Alert)
		}
		if !pages[a.Alert] {
			t.Errorf("%s has no page in runbook/", a.Alert)
		}
		if !strings.Contains(index, "| ["+a.Alert+"]("+a.Alert+".md) | "+a.Labels["severity"]+" |") {
			t.Errorf("%s, with its severity, is not in runbook/README.md", a.Alert)
		}
		delete(pages, a.Alert)
	}
	for page := range pages {
		t.Errorf("runbook/%s.md is of no alert", page)
	}
}

// TestRulesWithLinks: make rules puts an address before the page of each alert.
func TestRulesWithLinks(t *testing.T) {
	tool, err := exec.LookPath("make")
	if err != nil {
		t.Skip("needs make")
	}
	const at = "https://wiki.example.com/orgops/"
	out, err := exec.CommandContext(t.Context(), tool, "-s", "-C", "..", "rules", "RUNBOOK="+at).CombinedOutput()
	want := strings.ReplaceAll(read(t, "prometheus/orgops.rules.yaml"),
		"runbook_url: deploy/", "runbook_url: "+at+"deploy/")
	if err != nil || string(out) != want {
		t.Errorf("%v: (-want +got):\n%s", err, cmp.Diff(want, string(out)))
	}
}

// TestRunbookLinks: what a page points at is there.
func TestRunbookLinks(t *testing.T) {
	files, err := filepath.Glob("runbook/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, file := range files {
		for _, to := range link.FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join("runbook", to[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// TestRedisUsersOfCompose: each service logs in to Redis with the password of the user
// that its URL names, and is given that one; kubecheck holds the manifests to the same.
func TestRedisUsersOfCompose(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
			Secrets     []string          `yaml:"secrets"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, service := range file.Services {
		at, err := url.Parse(service.Environment["ORGOPS_REDIS_URL"])
		if err != nil {
			t.Fatal(err)
		}
		if at.Host == "" {
			continue
		}
		found++
		secret := "redis_" + at.User.Username()
		if got := service.Environment["ORGOPS_REDIS_PASSWORD_FILE"]; got != "/run/secrets/"+secret ||
			!slices.Contains(service.Secrets, secret) {
			t.Errorf("%s logs in as %q with the password in %q, of secrets %q", name, at.User.Username(), got, service.Secrets)
		}
	}
	if found != 3 {
		t.Errorf("%d services log in to Redis, want worker, console and intake", found)
	}
}

type panel struct {
	ID         int               `json:"id"`
	Type       string            `json:"type"`
	Title      string            `json:"title"`
	Datasource map[string]string `json:"datasource"`
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID      string            `json:"refId"`
		Expr       string            `json:"expr"`
		Datasource map[string]string `json:"datasource"`
	} `json:"targets"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboards/orgops.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) == 0 {
		t.Fatal("no panels")
	}
	return dashboard.Panels
}

// TestDashboard: panels have ids and places of their own, and ask the data source
// that is chosen above.
func TestDashboard(t *testing.T) {
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels(t) {
		if ids[p.ID] {
			t.Errorf("panel %q: the id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				place := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := places[place]; other != "" {
					t.Fatalf("panels %q and %q are in one place", p.Title, other)
				}
				places[place] = p.Title
			}
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q goes beyond the 24 columns", p.Title)
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource["uid"] != "${datasource}" {
			t.Errorf("panel %q: %d targets of data source %q", p.Title, len(p.Targets), p.Datasource["uid"])
		}
		for _, target := range p.Targets {
			if target.Expr == "" || target.Datasource["uid"] != "${datasource}" {
				t.Errorf("panel %q, target %s: %q of data source %q", p.Title, target.RefID, target.Expr, target.Datasource["uid"])
			}
		}
	}
}

// expressions are those of the dashboard, with what Grafana puts in for variables.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	fill := strings.NewReplacer("$__rate_interval", "1m", "$tenant", "default|acme")
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			all = append(all, fill.Replace(target.Expr))
		}
	}
	return all
}

// TestExpressionsParse has Prometheus' own tool read every expression of the
// dashboard, and run the rules' tests.
func TestExpressionsParse(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool")
	}
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for _, expr := range expressions(t) {
		// Labels make them different: the tool refuses two that are the same.
		rules = append(rules, rule{"panel:" + strings.Repeat("x", len(rules)+1), expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", file}, {"check", "rules", "prometheus/orgops.rules.yaml"},
		{"check", "config", "prometheus/prometheus.yaml"},
		{"test", "rules", "prometheus/orgops.rules.test.yaml", "prometheus/orgops.rules.days.test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestMetricsExist: what rules and dashboard ask for is in docs/reference/metrics.md,
// which a test of internal/metrics holds to what a worker tells; so are the labels.
func TestMetricsExist(t *testing.T) {
	labels := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(orgops_\\w+)` \\| (\\w+) \\|([^|]*)\\|").
		FindAllStringSubmatch(read(t, "../docs/reference/metrics.md"), -1) {
		names := strings.Fields(strings.ReplaceAll(row[3], ",", " "))
		labels[row[1]] = names
		if row[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				labels[row[1]+suffix] = append(names, "le")
			}
		}
	}
	if len(labels) == 0 {
		t.Fatal("docs/reference/metrics.md has no table that can be read")
	}
	asked := expressions(t)
	for _, a := range alerts(t) {
		asked = append(asked, a.Expr)
	}
	asked = append(asked, regexp.MustCompile(`query: .*orgops_.*`).FindString(read(t,
		"kubernetes/components/keda/scaledobject.yaml")))
	metric, matcher := regexp.MustCompile(`(orgops_\w+)(?:\{([^}]*)\})?`), regexp.MustCompile(`(\w+)\s*[=!]~?\s*"`)
	for _, expr := range asked {
		for _, use := range metric.FindAllStringSubmatch(expr, -1) {
			have, ok := labels[use[1]]
			if !ok {
				t.Errorf("no worker tells %s, in: %s", use[1], expr)
			}
			for _, label := range matcher.FindAllStringSubmatch(use[2], -1) {
				if !slices.Contains(have, label[1]) {
					t.Errorf("%s has no label %s, in: %s", use[1], label[1], expr)
				}
			}
		}
	}
}

// TestImagesOfManifests: a kustomization that sets the image of one version finds that of every
// pod. One under another name would stay without a tag, and run what the registry has today.
func TestImagesOfManifests(t *testing.T) {
	found := 0
	err := filepath.WalkDir("kubernetes", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) != ".yaml" {
			return err
		}
		for _, image := range regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(read(t, path), -1) {
			found++
			if image[1] != "registry.example.com/orgops:v0.0.0" {
				t.Errorf("%s: the image %s is not the one that kubernetes/README.md replaces", path, image[1])
			}
		}
		return err
	})
	if err != nil || found < 3 {
		t.Errorf("found %d images, %v; want those of worker, intake and console", found, err)
	}
}
