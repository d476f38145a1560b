package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

// template is the content of a row.
const template = `{"name":"mdl","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`

// same returns the tenant's template of the row.
func same(changes ...func(*sandbox.Template)) sandbox.Template {
	m := sandbox.Template{Name: "mdl", Type: "mdl", Dialect: "simplified/1.0", Claims: map[string]bool{"portrait": true},
		WellKnownTrustedIssuers: "aamva"}
	for _, change := range changes {
		change(&m)
	}
	return m
}

// creation is a scene with rows that create templates.
type creation struct {
	scene
	timeout time.Duration
	tenant  handlers.Templates
}

// creating returns a site with rows of these contents.
func creating(t *testing.T, rows []string, change ...func(*sandbox.Options)) *creation {
	t.Helper()
	s := &creation{scene: scene{site: newSite(t, change...), kind: handlers.Create}, timeout: requestTimeout}
	s.tenant = s.api
	s.handler = func(sab *saboteur) engine.Handler {
		cfg := handlers.CreateConfig{API: s.tenant, RequestTimeout: s.timeout}
		if sab != nil {
			cfg.API = sabotagedTemplates{s.tenant, sab}
		}
		return handlers.NewCreate(cfg)
	}
	s.submit(handlers.Create, rows...)
	return s
}

// templates has a name that is not its method's, so that it can be embedded.
type templates = handlers.Templates

type sabotagedTemplates struct {
	templates
	*saboteur
}

func (c sabotagedTemplates) CreateTemplate(ctx context.Context,
	r apiclient.TemplateRequest) (made apiclient.Template, err error) {
	c.step("POST", func() { made, err = c.templates.CreateTemplate(ctx, r) })
	return made, err
}

func (c sabotagedTemplates) Templates(ctx context.Context) iter.Seq2[apiclient.Template, error] {
	return func(yield func(apiclient.Template, error) bool) {
		c.step("list", func() { c.templates.Templates(ctx)(yield) })
	}
}

func repeatNames(o *sandbox.Options) { o.RepeatTemplateNames = true }

// of returns the requests of an operation.
func (s *site) of(operation string) (all []sandbox.Request) {
	for _, r := range s.sandbox.Requests() {
		if r.Operation == operation {
			all = append(all, r)
		}
	}
	return all
}

func (s *site) posts() int { return len(s.of(sandbox.OpCreateTemplate)) }
func (s *site) lists() int { return len(s.of(sandbox.OpListTemplates)) }

// until executes rows until the condition holds.
func (s *site) until(e *engine.Engine, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			s.t.Fatalf("nothing happens: row %+v", s.row(0))
		}
		if task := s.release(); task != nil {
			_ = e.ProcessTask(s.t.Context(), task)
		} else {
			s.rest()
		}
	}
}

// wantRow checks that the row is settled with the outcome, and its detail has the words.
func (s *site) wantRow(n ledger.Row, outcome ledger.Outcome, words ...string) {
	s.t.Helper()
	row := s.row(n)
	missing := slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(row.Result.Detail, w) })
	if row.Phase != ledger.PhaseSettled || row.Result.Outcome != outcome || missing {
		s.t.Errorf("row %d: %+v, want %s with %q", n, row, outcome, words)
	}
}

// TestIntentOfTemplate stores the intent after the permit and before the POST.
func TestIntentOfTemplate(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template})
	var e *engine.Engine
	permitted := false
	client, err := apiclient.New(apiclient.Config{
		BaseURL: s.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(s.sandbox.Token())),
		Gate: slowGate{func() {
			permitted = s.row(0).Intent == nil
			e.Pass(staleAnswer)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	s.tenant = client
	intended := false
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Match: func(sandbox.Request) bool {
		intended = s.row(0).Intent != nil
		return false
	}})
	e, _ = s.on(nil)
	_ = e.ProcessTask(t.Context(), s.release())
	s.wantRow(0, ledger.Done, s.sandbox.Templates()[0].ID)
	if !permitted || !intended {
		t.Errorf("no intent before the permit: %t; intent before the POST: %t", permitted, intended)
	}
}

// TestLostTemplate loses the answer to the POST. The templates are listed after twice the
// request timeout at the earliest, and there is one template in the end.
func TestLostTemplate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault sandbox.Fault
		posts int
	}{
		"after it was created":  {sandbox.Fault{DropAfter: true}, 1},
		"before it was created": {sandbox.Fault{DropBefore: true}, 2},
		"500 after":             {sandbox.Fault{Status: 500, Handled: true}, 1},
		"500 before":            {sandbox.Fault{Status: 500}, 2},
		"request timeout":       {sandbox.Fault{Status: 408}, 2},
		"answer without an id":  {sandbox.Fault{Body: `{"name":"mdl"}`, Handled: true}, 1},
		"answer cut":            {sandbox.Fault{Truncate: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := creating(t, []string{template}, repeatNames)
			s.timeout = 700 * time.Millisecond // twice the timeout exceeds the backoff
			fault := c.fault
			fault.Operation, fault.Count = sandbox.OpCreateTemplate, 1
			s.sandbox.AddFault(fault)
			e, _ := s.on(nil)
			_ = e.ProcessTask(t.Context(), s.release())
			row := s.row(0)
			if row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 1 || row.Intent == nil {
				t.Fatalf("row %+v", row)
			}
			s.drain(e)
			made := s.sandbox.Templates()
			if len(made) != 1 || s.posts() != c.posts || s.lists() != 1 {
				t.Fatalf("%d templates, %d POSTs, %d lists", len(made), s.posts(), s.lists())
			}
			s.wantRow(0, ledger.Done, made[0].ID)
			if waited := s.of(sandbox.OpListTemplates)[0].At.Sub(row.Intent.At); waited < 2*s.timeout {
				t.Errorf("listed %v after the POST", waited)
			}
		})
	}
}

// TestTemplateLandsLate has a POST without an answer land after the templates were listed. The
// next one is refused, and the row is done by the first.
func TestTemplateLandsLate(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropBefore: true})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Match: func(sandbox.Request) bool {
		if s.lists() == 1 && len(s.sandbox.Templates()) == 0 {
			s.sandbox.AddTemplate(same())
		}
		return false
	}})
	e, _ := s.on(nil)
	s.drain(e)
	made := s.sandbox.Templates()
	if len(made) != 1 || s.posts() != 2 || s.lists() != 2 {
		t.Fatalf("%d templates, %d POSTs, %d lists", len(made), s.posts(), s.lists())
	}
	s.wantRow(0, ledger.Done, made[0].ID)
}

// TestTemplateListRefused has the tenant refuse to list the templates: the result of a lost
// POST stays unknown.
func TestTemplateListRefused(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropAfter: true})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpListTemplates, Count: 1, Status: http.StatusBadRequest})
	e, _ := s.on(nil)
	s.drain(e)
	s.wantRow(0, ledger.Done, s.sandbox.Templates()[0].ID)
}

// TestNoTemplateCreated has a POST that certainly had no effect. No intent is left, and the
// next execution sends the next POST at once.
func TestNoTemplateCreated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sandbox.Fault{
		"429": {Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}},
		"401": {Status: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := creating(t, []string{template})
			fault.Operation, fault.Count = sandbox.OpCreateTemplate, 2 // a 401 is repeated once
			remove := s.sandbox.AddFault(fault)
			e, _ := s.on(nil)
			_ = e.ProcessTask(t.Context(), s.release())
			if row := s.row(0); row.Intent != nil || row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 0 {
				t.Errorf("row %+v", row)
			}
			remove()
			if name == "429" {
				s.drain(e)
				s.wantRow(0, ledger.Done)
			}
		})
	}
}

// TestRefusedTemplateAfterLost refuses the POST after one whose answer was lost: the
// intent stays.
func TestRefusedTemplateAfterLost(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template}, repeatNames)
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropBefore: true})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, Status: http.StatusTooManyRequests})
	e, _ := s.on(nil)
	s.until(e, func() bool { return s.posts() == 2 })
	if s.row(0).Intent == nil {
		t.Error("the intent of the lost POST is gone")
	}
	s.drain(e)
	s.wantRow(0, ledger.Done, s.sandbox.Templates()[0].ID)
}

// TestTemplateNameTaken has another template with the name of the row.
func TestTemplateNameTaken(t *testing.T) {
	for name, c := range map[string]struct {
		there sandbox.Template
		want  ledger.Outcome
		words []string
	}{
		"same content":          {same(), engine.Unchanged, nil},
		"a claim that is false": {same(func(m *sandbox.Template) { m.Claims["nationality"] = false }), engine.Unchanged, nil},
		"another claim": {same(func(m *sandbox.Template) { m.Claims["nationality"] = true }), engine.Refused,
			[]string{`"mdl"`, "presentation.nationality", "rename"}},
		"another type": {same(func(m *sandbox.Template) { m.Type = "other" }), engine.Refused, []string{"type"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := creating(t, []string{template})
			for range 120 { // the template is on the second page
				s.sandbox.AddTemplate(same(func(m *sandbox.Template) { m.Name = "other" }))
			}
			there := s.sandbox.AddTemplate(c.there)
			e, _ := s.on(nil)
			_ = e.ProcessTask(t.Context(), s.release())
			s.wantRow(0, c.want, append(c.words, there.ID)...)
			if n := len(s.sandbox.Templates()); n != 121 || s.posts() != 1 || s.row(0).Intent != nil {
				t.Errorf("%d templates, %d POSTs", n, s.posts())
			}
		})
	}
}

// TestTemplateNameRepeats has another template with the name of the row, and a server
// that permits that.
func TestTemplateNameRepeats(t *testing.T) {
	s := creating(t, []string{template}, repeatNames)
	s.sandbox.AddTemplate(same(func(m *sandbox.Template) { m.Type = "other" }))
	e, _ := s.on(nil)
	_ = e.ProcessTask(t.Context(), s.release())
	made := s.sandbox.Templates()
	if len(made) != 2 {
		t.Fatalf("%d templates", len(made))
	}
	s.wantRow(0, ledger.Done, made[1].ID)
}

// TestTemplateTakenMeanwhile has another client create a template of the name while the row
// waits after a lost answer.
func TestTemplateTakenMeanwhile(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, DropBefore: true, Count: 1})
	e, _ := s.on(nil)
	_ = e.ProcessTask(t.Context(), s.release())
	s.sandbox.AddTemplate(same(func(m *sandbox.Template) { m.Type = "other" }))
	s.drain(e)
	s.wantRow(0, engine.Refused, "type")
}

// TestTemplateTakenButNotListed has a list that is behind the names.
func TestTemplateTakenButNotListed(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template})
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Status: http.StatusConflict, Count: 1})
	e, _ := s.on(nil)
	_ = e.ProcessTask(t.Context(), s.release())
	if note := engine.ParseNote(s.row(0).Checkpoint.Memo); note.Outcome != engine.Transient ||
		!strings.Contains(note.Reason, "does not list it") {
		t.Errorf("note %+v", note)
	}
	s.drain(e)
	s.wantRow(0, ledger.Done)
}

// TestTemplateRows executes rows that send no POST, and two equal ones.
func TestTemplateRows(t *testing.T) {
	s := creating(t, []string{
		template, template, `{}`, `[]`,
		strings.Replace(template, `"aamva"`, `"other"`, 1), strings.Replace(template, `"type"`, `"colour":"red","type"`, 1),
	})
	e, _ := s.on(nil)
	task := s.release()
	for range 2 { // two deliveries
		_ = e.ProcessTask(t.Context(), task)
	}
	s.wantRow(0, ledger.Done)
	s.wantRow(1, engine.Unchanged)
	s.wantRow(2, engine.InvalidRow)
	s.wantRow(3, engine.InvalidRow)
	s.wantRow(4, engine.InvalidRow, "well_known_trusted_issuers")
	if row := s.row(5); !strings.Contains(row.Checkpoint.Note, "newer worker") {
		t.Errorf("row of a newer version: %+v", row)
	}
	if s.posts() != 2 || len(s.sandbox.Templates()) != 1 {
		t.Errorf("%d POSTs, %d templates", s.posts(), len(s.sandbox.Templates()))
	}
}

// TestBadTemplateListed lists a template outside the specification. The row's template is
// still found if the bad one has another name; otherwise the bad one may be the row's.
func TestBadTemplateListed(t *testing.T) {
	t.Parallel()
	for bad, open := range map[string]bool{
		`{"name":"other"}`: false, `{"id":"vct_9","name":"other","dialect":7}`: false,
		`{"name":"mdl"}`: true, `{}`: true, `7`: true,
	} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			s := creating(t, []string{template})
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropAfter: true})
			e, _ := s.on(nil)
			_ = e.ProcessTask(t.Context(), s.release())
			made := s.sandbox.Templates()[0]
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpListTemplates, Count: 1, Body: `{"templates":[` + bad +
				`,{"id":"` + made.ID + `",` + template[1:len(template)-1] + `,"created_at":"` +
				made.CreatedAt.Format(time.RFC3339) + `"}]}`})
			s.until(e, func() bool { return s.lists() == 1 })
			if row := s.row(0); (row.Phase != ledger.PhaseSettled) != open {
				t.Errorf("row %+v", row)
			}
			s.drain(e)
			s.wantRow(0, ledger.Done, made.ID)
		})
	}
}

// TestTemplateKilled kills the worker between any two calls, with an undisturbed tenant
// and with one that loses the first POST. There is one template in the end, and
// the row is done once.
func TestTemplateKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost  bool
		calls int
		when  []bool
	}{"undisturbed": {false, 4, beforeAndAfter}, "first POST lost": {true, 10, after}} {
		t.Run(name, func(t *testing.T) {
			anywhere(t, c.calls, c.when, func(t *testing.T, sab *saboteur) {
				s := creating(t, []string{template}, repeatNames)
				if c.lost {
					s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropBefore: true})
				}
				s.kill(sab)
				made := s.sandbox.Templates()
				if len(made) != 1 {
					t.Fatalf("%s: %d templates", sab.acted, len(made))
				}
				s.wantRow(0, ledger.Done, made[0].ID)
				if n := s.counts(); n.Settled() != 1 {
					t.Errorf("counts %v", n)
				}
			})
		})
	}
}

// TestTemplateStopped pauses or cancels the run, or fences the execution out, before and
// after each call. No POST begins any more, and one that was under way is resolved.
func TestTemplateStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*creation, ledger.SessionID) error{
		"cancel": func(s *creation, _ ledger.SessionID) error { return s.Cancel(s.t.Context(), tenant, s.run.ID) },
		"pause":  func(s *creation, _ ledger.SessionID) error { return s.Pause(s.t.Context(), tenant, s.run.ID) },
		"fence": func(s *creation, session ledger.SessionID) error {
			s.reclaim(session)
			return s.Pause(s.t.Context(), tenant, s.run.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			anywhere(t, 4, beforeAndAfter, func(t *testing.T, sab *saboteur) {
				s := creating(t, []string{template}, repeatNames)
				worker, session := s.on(sab)
				begun, lists := false, 0 // whether the POST was, when the run is stopped
				sab.act = func() {
					if err := stop(s, session); err != nil && !errors.Is(err, ledger.ErrEnded) {
						t.Error(err)
					}
					begun = s.posts() > 0 || sab.acted == "intend, after true"
					if !begun {
						worker.Pass(staleAnswer)
					}
					lists = s.lists()
				}
				_ = worker.ProcessTask(t.Context(), s.release())
				if sab.acted != "" && (s.lists() > lists || (s.posts() > 0) != begun) {
					t.Errorf("%s: %d POSTs, %d lists after it", sab.acted, s.posts(), s.lists()-lists)
				}
				e, _ := s.on(nil)
				if name == "cancel" {
					s.drain(e)
					if want := map[bool]ledger.Outcome{true: ledger.Done,
						false: ledger.Cancelled}[s.posts() > 0]; s.row(0).Result.Outcome != want {
						t.Errorf("%s: row %+v, want %s", sab.acted, s.row(0), want)
					}
					return
				}
				if err := s.Resume(t.Context(), tenant, s.run.ID); err != nil && !errors.Is(err, ledger.ErrEnded) {
					t.Fatal(err)
				}
				s.drain(e)
				s.wantRow(0, ledger.Done)
				if n := len(s.sandbox.Templates()); n != 1 {
					t.Errorf("%s: %d templates", sab.acted, n)
				}
			})
		})
	}
}

// TestStopAfterLostTemplate stops the run while a POST has no answer. A list shows whether it
// has landed, and no POST follows until the run is resumed.
func TestStopAfterLostTemplate(t *testing.T) {
	t.Parallel()
	lose := func(t *testing.T, landed bool) (*creation, *engine.Engine) {
		t.Parallel()
		s := creating(t, []string{template}, repeatNames)
		s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1,
			DropAfter: landed, DropBefore: !landed})
		e, _ := s.on(nil)
		_ = e.ProcessTask(t.Context(), s.release())
		return s, e
	}
	for _, landed := range []bool{true, false} {
		t.Run(fmt.Sprintf("cancel, landed %t", landed), func(t *testing.T) {
			s, e := lose(t, landed)
			if err := s.Cancel(t.Context(), tenant, s.run.ID); err != nil {
				t.Fatal(err)
			}
			s.drain(e)
			if landed {
				s.wantRow(0, ledger.Done, s.sandbox.Templates()[0].ID)
			} else {
				s.wantRow(0, ledger.Cancelled, "was not created")
			}
			if s.posts() != 1 {
				t.Errorf("%d POSTs", s.posts())
			}
		})
	}
	t.Run("before the second POST", func(t *testing.T) {
		s, _ := lose(t, false)
		var e *engine.Engine
		sab := &saboteur{call: 1, after: true} // the list
		sab.act = func() {
			if err := s.Cancel(t.Context(), tenant, s.run.ID); err != nil {
				t.Error(err)
			}
			e.Pass(staleAnswer)
		}
		e, _ = s.on(sab)
		s.drain(e)
		s.wantRow(0, ledger.Cancelled, "was not created")
		if sab.acted != "list, after true" || s.posts() != 1 {
			t.Errorf("cancelled at %q, %d POSTs", sab.acted, s.posts())
		}
	})
	t.Run("pause", func(t *testing.T) {
		s, e := lose(t, false)
		if err := s.Pause(t.Context(), tenant, s.run.ID); err != nil {
			t.Fatal(err)
		}
		s.until(e, func() bool { return s.row(0).Intent == nil })
		if task := s.release(); task != nil {
			t.Error("a row of a paused run is released again")
		}
		if s.posts() != 1 || s.lists() != 1 {
			t.Errorf("%d POSTs, %d lists", s.posts(), s.lists())
		}
		if err := s.Resume(t.Context(), tenant, s.run.ID); err != nil {
			t.Fatal(err)
		}
		s.drain(e)
		s.wantRow(0, ledger.Done, s.sandbox.Templates()[0].ID)
		if n := len(s.sandbox.Templates()); n != 1 || s.posts() != 2 {
			t.Errorf("%d templates, %d POSTs", n, s.posts())
		}
	})
}

// forgetful is a ledger whose Redis forgets every intent.
type forgetful struct{ engine.Ledger }

func (forgetful) Intend(context.Context, ledger.Segment, ledger.Nonce, []byte, ...ledger.Row) (ledger.Receipt, error) {
	return ledger.Receipt{Statuses: []ledger.Status{ledger.RowWritten}}, nil
}

// fatal is an API whose caller dies during its POST, which is the request.
type fatal struct {
	templates
	request *sync.WaitGroup
}

func (f fatal) CreateTemplate(ctx context.Context, r apiclient.TemplateRequest) (apiclient.Template, error) {
	sent := make(chan struct{})
	sending := apiclient.BeforeSending(context.WithoutCancel(ctx), func(context.Context) error { close(sent); return nil })
	f.request.Go(func() { _, _ = f.templates.CreateTemplate(sending, r) })
	<-sent
	runtime.Goexit()
	return apiclient.Template{}, nil
}

// TestForgottenIntent has Redis lose the intent of a POST that lands later. The API refuses the
// name to the next POST, and the template is found.
func TestForgottenIntent(t *testing.T) {
	t.Parallel()
	s := creating(t, []string{template})
	var request sync.WaitGroup
	landing := make(chan struct{})
	land := sync.OnceFunc(func() { close(landing) })
	defer land()
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate,
		Match: func(sandbox.Request) bool { <-landing; return false }})
	worker, session := s.worker(func(c *engine.Config) {
		c.Ledger = forgetful{c.Ledger}
		c.Handlers[handlers.Create] = handlers.NewCreate(handlers.CreateConfig{API: fatal{s.tenant, &request},
			RequestTimeout: s.timeout})
	})
	var life sync.WaitGroup
	life.Go(func() { s.until(worker, func() bool { return false }) })
	life.Wait()
	s.reclaim(session)
	land()
	request.Wait()
	e, _ := s.on(nil)
	s.drain(e)
	made := s.sandbox.Templates()
	if len(made) != 1 || s.posts() != 2 {
		t.Fatalf("%d POSTs, %d templates", s.posts(), len(made))
	}
	s.wantRow(0, engine.Unchanged, made[0].ID)
}
