package orgops_test

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeIsShort keeps README.md to what is read in a minute or two.
func TestReadmeIsShort(t *testing.T) {
	const most = 8192
	if n := len(read(t, "README.md")); n > most {
		t.Errorf("README.md has %d bytes, at most %d: move what is for users into docs/", n, most)
	}
}

// TestHowTos checks that a page of docs/how-to begins with its goal and its prerequisites, has
// commands, ends with a check, and is short: lists of facts are in docs/reference.
func TestHowTos(t *testing.T) {
	const most = 700
	for _, page := range filesBelow(t, "docs/how-to", ".md") {
		text := read(t, page)
		for _, wrong := range faultsOfHowTo(text) {
			t.Errorf("%s: %s", page, wrong)
		}
		if n := len(strings.Fields(text)); n > most {
			t.Errorf("%s has %d words, at most %d: move facts into docs/reference", page, n, most)
		}
	}
}

// faultsOfHowTo returns what a how-to page lacks of its three parts.
func faultsOfHowTo(text string) (wrong []string) {
	paragraphs := strings.Split(text, "\n\n")
	if len(paragraphs) < 2 || !goal.MatchString(strings.ReplaceAll(paragraphs[1], "\n", " ")) {
		wrong = append(wrong, `want a first paragraph such as "Goal: you have …. You need …."`)
	}
	steps, check, found := strings.Cut(text, "\n## Check\n")
	if !found || heading.MatchString(fence.ReplaceAllString(check, "")) {
		return append(wrong, `want "## Check", once, and as the last heading`)
	}
	if !shell.MatchString(steps) {
		wrong = append(wrong, "want the commands of its steps, in blocks of the language sh")
	}
	consoles := console.FindAllStringSubmatchIndex(check, -1)
	if len(consoles) == 0 {
		return append(wrong, "want a console block in the check")
	}
	last := consoles[len(consoles)-1]
	if !answered.MatchString(check[last[2]:last[3]]) {
		wrong = append(wrong, "want a line below the command of the check's last console that it prints if all is well")
	}
	if !strings.Contains(check[last[1]:], "\n\nIf ") {
		wrong = append(wrong, `want a paragraph below the check's last console that begins with "If": what to do if it prints else`)
	}
	return wrong
}

var (
	goal     = regexp.MustCompile(`^Goal: .+[.;] You need .+[.]$`)
	console  = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	answered = regexp.MustCompile(`(?m)^\$ .+\n(…\n)?[^$…\n]`)
)

// TestHowToFaults checks that each part that is missing is noticed.
func TestHowToFaults(t *testing.T) {
	const (
		begin = "# Title\n\nGoal: it works. You need\na worker.\n\n```sh\nworker\n```\n"
		check = "\n## Check\n\n```console\n$ enqueue tenant show\n…\nwell\n```\n\nIf not, read the log.\n"
	)
	if wrong := faultsOfHowTo(begin + check); wrong != nil {
		t.Errorf("a page with all parts: %q", wrong)
	}
	for _, lacking := range []string{
		"Goal: ", "You need", "```sh", "## Check", "```console", "$ enqueue", "well\n", "If not",
	} {
		if len(faultsOfHowTo(strings.Replace(begin+check, lacking, "", 1))) == 0 {
			t.Errorf("a page without %q has no fault", lacking)
		}
	}
	if len(faultsOfHowTo(begin+check+"\n## See also\n")) == 0 {
		t.Error("a page that goes on after its check has no fault")
	}
}

// TestChangelogIsOnePage keeps each version's part to what is read in a few minutes.
func TestChangelogIsOnePage(t *testing.T) {
	const most = 700
	for _, version := range strings.Split(read(t, "CHANGELOG.md"), "\n## ")[1:] {
		name, _, _ := strings.Cut(version, "\n")
		if n := len(strings.Fields(version)); n > most {
			t.Errorf("CHANGELOG.md: %s has %d words, at most %d", name, n, most)
		}
	}
}

// TestLinks follows every relative link of the documents to a file, and to a heading
// where it names one.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, target := range links(read(t, page)) {
			if err := follow(t, page, target); err != "" {
				t.Errorf("%s: link %s: %s", page, target, err)
			}
		}
	}
}

// TestEveryPageIsLinked: a page that docs/README.md does not name is not found.
func TestEveryPageIsLinked(t *testing.T) {
	var listed []string
	for _, target := range links(read(t, "docs/README.md")) {
		listed = append(listed, filepath.Join("docs", target))
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/") && page != "docs/README.md" && !slices.Contains(listed, page) {
			t.Errorf("docs/README.md does not link %s", page)
		}
	}
}

// TestTroubleshootingQuotesTheCode: a message that is not in the code any more is not
// searched for. "…" in a quotation stands for what differs.
func TestTroubleshootingQuotesTheCode(t *testing.T) {
	var code strings.Builder
	for _, path := range filesBelow(t, ".", ".go") {
		if !strings.HasSuffix(path, "_test.go") {
			code.WriteString(read(t, path))
		}
	}
	quotation := regexp.MustCompile("`([^`]+)`")
	checked := 0
	for line := range strings.Lines(read(t, "docs/troubleshooting.md")) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		message, _, _ := strings.Cut(line, " | ")
		for _, quoted := range quotation.FindAllStringSubmatch(message, -1) {
			for part := range strings.SplitSeq(quoted[1], "…") {
				checked++
				if !strings.Contains(code.String(), strings.TrimSpace(part)) {
					t.Errorf("docs/troubleshooting.md: the code has no message %q", part)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("docs/troubleshooting.md: no messages found")
	}
}

// TestCommandsExist checks the commands of examples and code spans, and their flags, against the
// reference, which is generated from the programs.
func TestCommandsExist(t *testing.T) {
	settings := read(t, "docs/reference/settings.md")
	sections := map[string]string{}
	all := strings.Split(read(t, "docs/reference/commands.md"), "\n### `")
	for _, section := range all[1:] {
		name, body, _ := strings.Cut(section, "`\n")
		sections[name] = body + settings + all[0] // which has --help and --version
	}
	sections["worker"] = sections["worker work"]
	sections["enqueue"] = settings
	spans := regexp.MustCompile("`((?:worker|enqueue) [^`]+)`")
	// A program's name begins a command, after what a shell allows before it.
	called := regexp.MustCompile(`(?:^|[;|&({!] ?|\$\(|until |if |xargs )(?:[A-Z_]+=\S+ )*(worker|enqueue)((?: [^|;&><)]+)?)`)
	checked := 0
	for _, page := range pages(t) {
		if page == "CHANGELOG.md" { // which names the commands of former versions too
			continue
		}
		text := read(t, page)
		lines := examples(text)
		for _, span := range spans.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			lines = append(lines, strings.ReplaceAll(span[1], "\n", " "))
		}
		for line := range strings.Lines(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " ")) {
			for _, call := range called.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
				checked++
				if wrong := unknownCommand(sections, call[1], strings.Fields(call[2])); wrong != "" {
					t.Errorf("%s: %s: there is no %s", page, strings.TrimSpace(call[0]), wrong)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands found", checked)
	}
}

// unknownCommand returns the command or flag among the words that has no section in the
// reference, or is not in it; "" if there is none.
func unknownCommand(sections map[string]string, program string, words []string) string {
	name := program
	for _, word := range words {
		if !plainWord.MatchString(word) {
			break
		}
		name += " " + word
	}
	for sections[name] == "" && strings.Count(name, " ") > 1 { // the last words are arguments
		name = name[:strings.LastIndex(name, " ")]
	}
	section := sections[name]
	if section == "" {
		return "command " + name
	}
	for _, word := range words {
		flag := longFlag.FindString(word)
		if flag != "" && !regexp.MustCompile(`[`+"`"+` ]`+flag+`\b[^-]`).MatchString(section) {
			return "flag " + flag + " of " + name
		}
	}
	return ""
}

var (
	plainWord = regexp.MustCompile(`^[a-z][a-z-]*$`)
	longFlag  = regexp.MustCompile(`^--[a-z][a-z-]*`)
)

// TestExamples: an example is pasted into a shell. Bash has to be able to parse each, and none
// may have a backtick: in "enqueue domains sweep `--dry-run`" the shell runs the flag as a
// command, whose output is nothing, and the preview becomes a sweep.
func TestExamples(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	checked := 0
	for _, page := range pages(t) {
		for _, example := range examples(read(t, page)) {
			checked++
			parse := exec.CommandContext(t.Context(), bash, "--norc", "-n")
			parse.Stdin = strings.NewReader(example)
			if out, err := parse.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: bash cannot parse\n%s\n%s", page, example, out)
			}
			if markdown.MatchString(example) {
				t.Errorf("%s: an example has Markdown in it:\n%s", page, example)
			}
		}
	}
	if checked == 0 {
		t.Error("no examples found")
	}
}

var (
	shell    = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")
	prompt   = regexp.MustCompile(`(?m)^\$ (.*)$`)
	indented = regexp.MustCompile(`(?m)^\n((?:    .+\n)+)`)
	markdown = regexp.MustCompile("`|" + `\\[|<*]`)
)

// examples returns the blocks of a document that are in the language of a shell, the lines
// behind the prompts of its consoles, and its indented blocks, which come from help texts.
func examples(text string) (found []string) {
	for _, block := range shell.FindAllStringSubmatch(text, -1) {
		found = append(found, block[1])
	}
	for _, line := range prompt.FindAllStringSubmatch(text, -1) {
		found = append(found, line[1])
	}
	for _, block := range indented.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		found = append(found, block[1])
	}
	return found
}

// pages are the documents that people read, in this directory and below docs and deploy.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.Concat(
		[]string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"},
		filesBelow(t, "docs", ".md"), filesBelow(t, "deploy", ".md"))
}

func filesBelow(t *testing.T, dir, extension string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == extension {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: files %s: %d, %v", dir, extension, len(paths), err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	comment = regexp.MustCompile("(?s)<!--.*?-->")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// links returns the relative links of a document.
func links(text string) (targets []string) {
	text = comment.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	for _, found := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(found[1], "://") {
			targets = append(targets, found[1])
		}
	}
	return targets
}

// follow returns what is wrong with a link, or "".
func follow(t *testing.T, page, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	path := page
	if u.Path != "" {
		path = filepath.Join(filepath.Dir(page), u.Path)
	}
	if _, err := os.Stat(path); err != nil {
		return err.Error()
	}
	if u.Fragment != "" && !slices.Contains(anchors(read(t, path)), u.Fragment) {
		return path + " has no such heading"
	}
	return ""
}

// anchors are the names that GitHub gives a document's headings: in lower case, without
// punctuation, with hyphens for blanks.
func anchors(text string) (names []string) {
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := dropped.ReplaceAllString(strings.ToLower(found[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
