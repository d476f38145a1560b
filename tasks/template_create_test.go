package tasks_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"orgops/internal/sandbox"
	"orgops/tasks"
)

func (w *world) posts() int { return len(w.requests(sandbox.OpCreateTemplate)) }
func (w *world) lists() int { return len(w.requests(sandbox.OpListTemplates)) }

// same is the template of the row, as it would be there before.
func same(changes ...func(*sandbox.Template)) sandbox.Template {
	m := sandbox.Template{Name: "mdl", Type: "mdl", Dialect: "simplified/1.0", Claims: map[string]bool{"portrait": true}, WellKnownTrustedIssuers: "aamva"}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func TestCreateMarksBeforeThePost(t *testing.T) {
	w := newWorld(t)
	run := w.submit(tasks.TypeCreate, template)
	w.sandbox.AddFault(sandbox.Fault{Match: func(sandbox.Request) bool {
		if len(w.mark(run, 0, "post")) == 0 {
			t.Error("no mark is there when the POST comes")
		}
		return false
	}})
	w.drain()
	w.wantFate(run, 0, "done", w.sandbox.Templates()[0].ID)
	if w.posts() != 1 || w.lists() != 0 {
		t.Errorf("%d POSTs and %d lists, want 1 and none", w.posts(), w.lists())
	}
}

// TestCreateAnswerLost: whether the template is there is looked up, not before
// twice the request's timeout, and it is not created twice.
func TestCreateAnswerLost(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault sandbox.Fault
		posts int
	}{
		{"after it was created", sandbox.Fault{DropAfter: true}, 1},
		{"before it was created", sandbox.Fault{DropBefore: true}, 2},
		{"crashed after it was created", sandbox.Fault{Status: 500, Handled: true}, 1},
		{"crashed before", sandbox.Fault{Status: 500}, 2},
		{"proxy timed out", sandbox.Fault{Status: 504, Handled: true}, 1},
		{"request timeout", sandbox.Fault{Status: 408}, 2},
		{"answer without an id", sandbox.Fault{Body: `{"name":"mdl"}`, Handled: true}, 1},
		{"answer cut", sandbox.Fault{Truncate: true}, 1},
	} {
		for _, repeat := range []bool{false, true} {
			name := test.name
			if repeat {
				name += ", names are not unique"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, func(s *settings) { s.sandbox.RepeatTemplateNames = repeat })
				test.fault.Operation, test.fault.Count = sandbox.OpCreateTemplate, 1
				w.sandbox.AddFault(test.fault)
				run := w.submit(tasks.TypeCreate, template)
				first := w.clock.now()
				n := w.step()
				w.wantFate(run, 0, "open", "transient")
				if n.retried != 1 {
					t.Errorf("%d attempts counted, want 1", n.retried)
				}
				for w.queue.next() != nil {
					w.step()
					if waited := w.clock.now().Sub(first); w.lists() > 0 && waited < 2*w.config.RequestTimeout {
						t.Errorf("looked up after %v, want %v at least", waited, 2*w.config.RequestTimeout)
					}
				}
				made := w.sandbox.Templates()
				if len(made) != 1 {
					t.Fatalf("%d templates, want one", len(made))
				}
				w.wantFate(run, 0, "done", made[0].ID)
				if w.posts() != test.posts || w.lists() != test.posts { // a second POST is looked after too
					t.Errorf("%d POSTs and %d lists, want %d of each", w.posts(), w.lists(), test.posts)
				}
				if n.retried != 1 {
					t.Errorf("%d attempts counted in the end, want 1: to wait is none", n.retried)
				}
			})
		}
	}
}

// TestCreateLandsLate: a request whose answer was lost lands after the second one
// was answered. A server whose names repeat then has two, and the row says so.
func TestCreateLandsLate(t *testing.T) {
	for _, test := range []struct {
		name   string
		killed bool // the worker dies as the second answer comes
		late   sandbox.Template
		says   bool
	}{
		{"late", false, same(), true},
		{"late, and the worker dies", true, same(), true},
		{"another's, of other content", false, same(func(m *sandbox.Template) { m.Type = "other" }), false},
		{"another's, of long ago", false, same(func(m *sandbox.Template) { m.CreatedAt = newWorldTime.Add(-time.Hour) }), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.sandbox.RepeatTemplateNames = true })
			w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropBefore: true})
			run := w.submit(tasks.TypeCreate, template)
			if test.killed {
				posts := 0
				w.saboteur.on = func(call string, after bool) bool {
					if call == "api.post" && after {
						posts++
					}
					return posts == 2
				}
			}
			for w.posts() < 2 {
				w.step()
			}
			first := w.sandbox.Templates()[0]
			late := w.sandbox.AddTemplate(test.late)
			w.drain()
			w.wantEnded(run)
			w.wantFate(run, 0, "done", first.ID)
			if _, detail := w.fate(run, 0); strings.Contains(detail, late.ID) != test.says {
				t.Errorf("detail %q; says %s: want %t", detail, late.ID, test.says)
			}
			if logged := strings.Contains(w.log.String(), "created more than once"); logged != test.says {
				t.Errorf("logged: %t, want %t", logged, test.says)
			}
			if w.posts() != 2 {
				t.Errorf("%d POSTs, want 2", w.posts())
			}
		})
	}
}

// TestCreateListRefused: that the templates cannot be listed is no word on the one
// that a lost request may have made.
func TestCreateListRefused(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropAfter: true})
	f := status(http.StatusBadRequest)
	f.Operation, f.Count = sandbox.OpListTemplates, 1
	w.sandbox.AddFault(f)
	run := w.submit(tasks.TypeCreate, template)
	w.drain()
	w.wantFate(run, 0, "done", w.sandbox.Templates()[0].ID)
}

// TestCreateFoundAmongOthers: names repeat, and one of that name and content was
// there before; the one that a lost request made is the row's.
func TestCreateFoundAmongOthers(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.sandbox.RepeatTemplateNames = true })
	before := w.sandbox.AddTemplate(same())
	w.clock.advance(time.Hour)
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropAfter: true})
	run := w.submit(tasks.TypeCreate, template)
	w.drain()
	made := w.sandbox.Templates()
	if len(made) != 2 || made[0].ID != before.ID {
		t.Fatalf("%d templates, want the one of before and the row's", len(made))
	}
	w.wantFate(run, 0, "done", made[1].ID)
}

// TestCreateNothingWasCreated: where that is sure the mark is put back, and the
// next execution POSTs at once.
func TestCreateNothingWasCreated(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusUnauthorized} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			w := newWorld(t)
			f := status(code, "Retry-After", "2")
			f.Count = 1
			w.sandbox.AddFault(f)
			run := w.submit(tasks.TypeCreate, template)
			w.step()
			if value := w.mark(run, 0, "post"); len(value) != 0 {
				t.Errorf("the mark %s is left, want it put back", value)
			}
			w.drain()
			w.wantFate(run, 0, "done")
			if w.posts() != 2 || w.lists() != 0 {
				t.Errorf("%d POSTs and %d lists, want 2 and none", w.posts(), w.lists())
			}
		})
	}
	t.Run("never sent", func(t *testing.T) {
		w := newWorld(t)
		run := w.submit(tasks.TypeCreate, template)
		if err := w.sandbox.Close(); err != nil { // nobody listens: the connection is refused
			t.Fatal(err)
		}
		w.step()
		w.wantFate(run, 0, "open", "transient")
		if value := w.mark(run, 0, "post"); len(value) != 0 {
			t.Errorf("the mark %s is left, want it put back", value)
		}
	})
	t.Run("an older mark stays", func(t *testing.T) {
		w := newWorld(t)
		w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, DropBefore: true, Count: 1})
		f := status(http.StatusTooManyRequests)
		f.Operation, f.Count = sandbox.OpCreateTemplate, 1
		w.sandbox.AddFault(f)
		run := w.submit(tasks.TypeCreate, template)
		for w.posts() < 2 {
			w.step()
		}
		if len(w.mark(run, 0, "post")) == 0 {
			t.Error("the mark of the lost answer is gone")
		}
		w.drain()
		w.wantFate(run, 0, "done")
	})
}

func TestCreateNameIsTaken(t *testing.T) {
	for _, test := range []struct {
		name    string
		there   sandbox.Template
		outcome string
		says    []string
	}{
		{"same content", same(), "unchanged", nil},
		{"a claim that is false besides", same(func(m *sandbox.Template) { m.Claims["nationality"] = false }), "unchanged", nil},
		{"another claim", same(func(m *sandbox.Template) { m.Claims["nationality"] = true }), "refused", []string{`"mdl"`, "presentation.nationality", "rename"}},
		{"another type", same(func(m *sandbox.Template) { m.Type = "other" }), "refused", []string{"type"}},
		{"an authority", same(func(m *sandbox.Template) { m.CustomCertificateAuthority = new("PEM") }), "refused", []string{"custom_certificate_authority"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			for range 120 { // it is on the second page
				w.sandbox.AddTemplate(same(func(m *sandbox.Template) { m.Name = "other" }))
			}
			there := w.sandbox.AddTemplate(test.there)
			w.clock.advance(time.Hour)
			run := w.submit(tasks.TypeCreate, template)
			w.drain()
			w.wantFate(run, 0, test.outcome, append(test.says, there.ID)...)
			if n := len(w.sandbox.Templates()); n != 121 {
				t.Errorf("%d templates, want 121", n)
			}
		})
	}
}

// TestCreateTwiceInOneRun: the row that comes second finds what the first made.
func TestCreateTwiceInOneRun(t *testing.T) {
	w := newWorld(t)
	run := w.submit(tasks.TypeCreate, template, template)
	w.drain()
	if r := w.wantEnded(run); r.Counts["done"] != 1 || r.Counts["unchanged"] != 1 {
		t.Errorf("counts %v, want one done and one unchanged", r.Counts)
	}
	if n := len(w.sandbox.Templates()); n != 1 {
		t.Errorf("%d templates, want one", n)
	}
}

// TestCreateTakenBetween: while a lost answer was waited for, another made a
// template of that name: it is not ours.
func TestCreateTakenBetween(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, DropBefore: true, Count: 1})
	run := w.submit(tasks.TypeCreate, template)
	w.step()
	w.sandbox.AddTemplate(same(func(m *sandbox.Template) { m.Type = "other" }))
	w.drain()
	w.wantFate(run, 0, "refused", "type")
}

// TestCreateTakenButNotListed: the list may be behind the names.
func TestCreateTakenButNotListed(t *testing.T) {
	w := newWorld(t)
	f := status(http.StatusConflict)
	f.Operation, f.Count = sandbox.OpCreateTemplate, 1
	w.sandbox.AddFault(f)
	run := w.submit(tasks.TypeCreate, template)
	n := w.step()
	w.wantFate(run, 0, "open", "transient", "does not list it")
	if n.retried != 1 {
		t.Errorf("%d attempts counted, want 1", n.retried)
	}
	w.drain()
	w.wantFate(run, 0, "done")
}

func TestCreateInvalidTemplate(t *testing.T) {
	w := newWorld(t)
	run := w.submit(tasks.TypeCreate, template)
	q := w.queue.tasks[0]
	q.payload = []byte(strings.Replace(string(q.payload), `"aamva"`, `"other"`, 1))
	w.drain()
	w.wantFate(run, 0, "invalid", "well_known_trusted_issuers")
	if n := len(w.requests()); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

// TestCreateBesideABadTemplate: a listed template outside the specification keeps
// nothing from being found if it has another name; otherwise it may be the row's.
func TestCreateBesideABadTemplate(t *testing.T) {
	for _, test := range []struct {
		name, bad, want string
	}{
		{"another name, no id", `{"name":"other"}`, "done"},
		{"another name, a wrong type", `{"id":"vct_9","name":"other","dialect":7}`, "done"},
		{"the same name, no id", `{"name":"mdl"}`, "open"},
		{"no name, no id", `{}`, "open"},
		{"no object", `7`, "open"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Count: 1, DropAfter: true})
			run := w.submit(tasks.TypeCreate, template)
			w.step()
			made := w.sandbox.Templates()
			if len(made) != 1 {
				t.Fatalf("%d templates, want one", len(made))
			}
			w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpListTemplates, Count: 1, Body: `{"templates":[` + test.bad +
				`,{"id":"` + made[0].ID + `",` + template[1:len(template)-1] + `,"created_at":"` + made[0].CreatedAt.Format(time.RFC3339) + `"}]}`})
			for w.lists() == 0 {
				w.step()
			}
			words := map[string]string{"done": made[0].ID, "open": "templates[0]"}
			w.wantFate(run, 0, test.want, words[test.want])
			w.drain()
			w.wantFate(run, 0, "done", made[0].ID)
		})
	}
}
