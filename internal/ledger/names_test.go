package ledger_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// learner stores subjects.
type learner struct {
	*worker
	seg ledger.Segment
}

func newLearner(w *worker) *learner { return &learner{w, segment(w.submit("learns", 1), 0)} }

// learn ends an execution that the ledger does not know: what it has read is stored all the same.
func (l *learner) learn(subjects ...ledger.Subject) {
	l.t.Helper()
	var ends []ledger.RowEnd
	for _, s := range subjects {
		ends = append(ends, ledger.RowEnd{Row: 0, Ending: ledger.GiveBack{}, Subject: &s})
	}
	if _, err := l.End(l.t.Context(), l.seg, ledger.NewNonce(), ends...); err != nil {
		l.t.Fatal(err)
	}
}

// known returns the subjects with a prefix.
func (l *learner) known(prefix string) []ledger.Subject {
	l.t.Helper()
	all, err := l.Subjects(l.t.Context(), tenant, prefix, 0, 1000)
	if err != nil {
		l.t.Fatal(err)
	}
	return all
}

// consistent fails unless each subject is found by its id, and nothing else is.
func (l *learner) consistent(all []ledger.Subject) {
	l.t.Helper()
	for _, s := range all {
		if found, err := l.Subject(l.t.Context(), tenant, s.ID); err != nil || !reflect.DeepEqual(found, s) {
			l.t.Fatalf("by id %q: %+v, %v, want %+v", s.ID, found, err, s)
		}
	}
	fields, err := l.rdb.HVals(l.t.Context(), strings.Replace(ledger.ListKey(tenant, "due"), ":due", ":ids", 1)).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	if n := strings.Count(strings.Join(fields, ""), "\x02"); n != len(all) {
		l.t.Fatalf("%d ids, want %d: %q", n, len(all), fields)
	}
}

func TestSubjectOfAnExecution(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3)
	seg := segment(run, 0)
	at := time.Unix(1_800_000_000, 0).UTC()
	e, first := w.take(seg)
	s := ledger.Subject{Name: "acme.example", ID: "ord_1", At: at, About: []byte("pending")}
	r, err := w.End(t.Context(), seg, e.nonce, ledger.RowEnd{Row: first, Ending: ledger.Waiting{Stage: ledger.StageCheck,
		After: time.Hour}, Subject: &s})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, ledger.RowWritten)
	l := &learner{w, seg}
	if all := l.known("acme"); len(all) != 1 || !reflect.DeepEqual(all[0], s) {
		t.Errorf("subjects %+v, want %+v", all, s)
	}
	if other, err := w.Subjects(t.Context(), "other", "", 0, 10); err != nil || len(other) > 0 {
		t.Errorf("another tenant has %+v, %v", other, err)
	}
	for _, bad := range []ledger.Subject{
		{ID: "", Name: "a", At: at, About: []byte{1}}, {ID: "a\x01b", Name: "a", At: at, About: []byte{1}},
		{ID: "a", Name: "", At: at, About: []byte{1}},
		{ID: "a", Name: "b\x02", At: at, About: []byte{1}},
		{ID: "a", Name: strings.Repeat("n", 254), At: at, About: []byte{1}},
		{ID: "a", Name: "n", At: at, About: make([]byte, 1025)},
		{ID: "a", Name: "n", About: []byte{1}}, {ID: "a"},
	} {
		if _, err := w.End(t.Context(), seg, e.nonce, ledger.RowEnd{Row: first, Ending: ledger.GiveBack{},
			Subject: &bad}); err == nil {
			t.Errorf("subject %+v is accepted", bad)
		}
	}
	w.must(w.Cancel, "a")
	w.remove(run)
	if all := l.known(""); len(all) != 1 {
		t.Errorf("subjects %+v after the deletion of the run, want one", all)
	}
}

// TestSubjects stores subjects at random, and compares the index with a map.
func TestSubjects(t *testing.T) {
	l := newLearner(newWorker(t))
	for i := range 8 {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		model := map[string]ledger.Subject{}
		for _, s := range l.known("") {
			model[s.ID] = s
		}
		for range 150 {
			batch := make([]ledger.Subject, 1+r.IntN(4))
			for j := range batch {
				id := fmt.Sprint("ord_", r.IntN(25))
				s := ledger.Subject{
					ID: id, Name: []string{"a.example", "aa.example", "b.example", id + ".example"}[r.IntN(4)],
					At: time.Unix(int64(1_800_000_000+r.IntN(1000)), 0).UTC(), About: []byte{byte(r.IntN(256)), 1, 0, byte(r.IntN(3))},
				}
				if r.IntN(8) == 0 {
					s = ledger.Subject{ID: id, At: s.At}
				}
				batch[j] = s
				before, known := model[id]
				switch {
				case known && s.At.Before(before.At): // by an execution that ended after its successor
				case s.About == nil:
					delete(model, id)
				default:
					model[id] = s
				}
			}
			l.learn(batch...)
		}
		byName := func(a, b ledger.Subject) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }
		all := l.known("")
		if want := slices.SortedFunc(maps.Values(model), byName); !reflect.DeepEqual(all, want) {
			t.Fatalf("round %d:\n%+v\nwant\n%+v", i, all, want)
		}
		l.consistent(all)
		for _, name := range []string{"a.example", "aa.example", "ord_3.example", "none.example"} {
			named := slices.DeleteFunc(slices.Clone(all), func(s ledger.Subject) bool { return s.Name != name })
			if found, err := l.SubjectsNamed(t.Context(), tenant, name, 0, 1000); err != nil || !slices.EqualFunc(found, named,
				func(a, b ledger.Subject) bool { return reflect.DeepEqual(a, b) }) {
				t.Fatalf("round %d: named %s: %+v, %v, want %+v", i, name, found, err, named)
			}
		}
		if got, want := len(l.known("a")), len(slices.DeleteFunc(slices.Clone(all), func(s ledger.Subject) bool {
			return !strings.HasPrefix(s.Name, "a")
		})); got != want {
			t.Fatalf("round %d: %d subjects begin with a, want %d", i, got, want)
		}
	}
	if _, err := l.Subject(t.Context(), tenant, "ord_99"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("%v, want %v", err, ledger.ErrNotFound)
	}
}

// TestSubjectsOfExecutionsInDisorder: an execution that the ledger has taken for dead ends after
// its successor, and neither replaces nor removes what that has read. Of two in one second the
// later one counts, whatever it has read.
func TestSubjectsOfExecutionsInDisorder(t *testing.T) {
	l := newLearner(newWorker(t))
	at := time.Unix(1_800_000_000, 0).UTC()
	read := func(about string, at time.Time) ledger.Subject {
		return ledger.Subject{Name: "a.example", ID: "ord_1", At: at, About: []byte(about)}
	}
	gone := func(at time.Time) ledger.Subject { return ledger.Subject{ID: "ord_1", At: at} }
	for _, step := range []struct {
		name   string
		stores ledger.Subject
		want   string
	}{
		{"the first", read("z", at), "z"},
		{"later in its second", read("a", at.Add(900*time.Millisecond)), "a"},
		{"older", read("z", at.Add(-10*time.Minute)), "a"},
		{"gone, older", gone(at.Add(-10 * time.Minute)), "a"},
		{"gone, later in its second", gone(at.Add(950 * time.Millisecond)), ""},
		{"there again", read("b", at.Add(time.Minute)), "b"},
		{"gone later", gone(at.Add(time.Hour)), ""},
	} {
		l.learn(step.stores)
		got := ""
		for _, s := range l.known("a.example") {
			got += string(s.About)
		}
		if got != step.want {
			t.Errorf("%s: the index has %q, want %q", step.name, got, step.want)
		}
	}
}

// TestSubjectsAreBounded: beyond the most, the ones that were read the longest ago leave first.
func TestSubjectsAreBounded(t *testing.T) {
	l := newLearner(newWorker(t))
	l.KeepSubjects(40)
	for i := range 300 {
		l.learn(ledger.Subject{ID: fmt.Sprint("ord_", i), Name: fmt.Sprintf("%d.example", i%70),
			At: time.Unix(int64(1_800_000_000+i), 0).UTC(), About: []byte{1}})
		all := l.known("")
		if len(all) != min(i+1, 40) {
			t.Fatalf("%d subjects after %d, want %d", len(all), i+1, min(i+1, 40))
		}
		for j := max(0, i-6); j <= i; j++ { // of eight, one is older than these
			if !slices.ContainsFunc(all, func(s ledger.Subject) bool { return s.ID == fmt.Sprint("ord_", j) }) {
				t.Fatalf("subject %d was forgotten after %d", j, i+1)
			}
		}
	}
	l.consistent(l.known(""))
}

// TestSubjectsAtMaxmemory: rows end, and the index stays as it is.
func TestSubjectsAtMaxmemory(t *testing.T) {
	w := on(t, redistest.Start(t).Client())
	l := newLearner(w)
	at := time.Unix(1_800_000_000, 0).UTC()
	l.learn(ledger.Subject{ID: "ord_1", Name: "a.example", At: at, About: []byte("old")},
		ledger.Subject{ID: "ord_3", Name: "c.example", At: at, About: []byte("old")})
	seg := segment(w.submit("a", 2), 0)
	e, row := w.take(seg)
	setMemory(t, w.rdb, "1")
	for i, s := range []ledger.Subject{
		{ID: "ord_1", Name: "renamed.example", At: at.Add(time.Hour), About: []byte("new")},
		{ID: "ord_2", Name: "b.example", At: at, About: []byte("new")},
	} {
		r, err := w.End(t.Context(), seg, e.nonce, ledger.RowEnd{Row: row,
			Ending: ledger.Result{Outcome: ledger.Done}, Subject: &s})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, []ledger.Status{ledger.RowWritten, ledger.RowEnded}[i])
	}
	l.learn(ledger.Subject{ID: "ord_3", At: at}) // needs no memory
	setMemory(t, w.rdb, "0")
	all := l.known("")
	if len(all) != 1 || string(all[0].About) != "old" {
		t.Errorf("subjects %+v, want the first as it was", all)
	}
	l.consistent(all)
}

// TestSubjectsAbout checks that subjects are found by a text of their About alone, which is no
// pattern, in their order, and that the bound is kept; also behind the first step of the scan.
func TestSubjectsAbout(t *testing.T) {
	l := newLearner(newWorker(t))
	at := time.Unix(1_800_000_000, 0).UTC()
	for i := range 30 {
		var some []ledger.Subject
		for j := range 50 {
			n := 50*i + j
			about := fmt.Sprintf("of org_%d.", n)
			if n%500 == 499 {
				about = "of org_*[x]"
			}
			some = append(some, ledger.Subject{Name: fmt.Sprintf("org_7.%04d", n), ID: fmt.Sprint("org_8.", n), At: at,
				About: []byte(about)})
		}
		l.learn(some...)
	}
	for _, c := range []struct {
		text  string
		most  int
		names []string
		more  bool
	}{
		{"org_1499.", 9, nil, false}, // its about is another
		{"org_1234.", 9, []string{"org_7.1234"}, false},
		{"org_*", 9, []string{"org_7.0499", "org_7.0999", "org_7.1499"}, false},
		{"[x]", 3, []string{"org_7.0499", "org_7.0999", "org_7.1499"}, false},
		{"org_7.", 9, []string{"org_7.0007"}, false},
		{"org_8.", 9, []string{"org_7.0008"}, false},
	} {
		all, more, err := l.SubjectsAbout(t.Context(), tenant, c.text, c.most)
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		if err != nil || !slices.Equal(names, c.names) || more != c.more {
			t.Errorf("%q: %q, more %v, %v; want %q, %v", c.text, names, more, err, c.names, c.more)
		}
	}
	if all, more, err := l.SubjectsAbout(t.Context(), tenant, "of", 10); err != nil || len(all) != 10 || !more {
		t.Errorf("%d subjects, more %v, %v; want 10 and more", len(all), more, err)
	}
	if all, more, err := l.SubjectsAbout(t.Context(), "nobody", "of", 10); err != nil || len(all) != 0 || more {
		t.Errorf("of another tenant: %d subjects, more %v, %v", len(all), more, err)
	}
}
