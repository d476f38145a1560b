package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"orgops/internal/tenant"
)

// readFileEvery is how often the file of tenants is read. Its directory is not watched for
// events, since Kubernetes replaces a symbolic link above the file.
const readFileEvery = 5 * time.Second

// watchFile reloads the file of tenants after each SIGHUP, and when it or a file that it names
// has changed, until ctx ends. A change takes effect once two readings in a row are the same,
// since it may still be written. A refused file is tried again with each reading, since a
// secret that it names may be added later; a reason is logged once.
func (w *worker) watchFile(ctx context.Context) {
	var last []string
	var reason string
	for {
		requested := false
		select {
		case <-ctx.Done():
			return
		case <-w.file.hangups:
			requested = true
		case <-time.After(w.file.every):
		}
		present, changed := w.file.digests(w.tenants())
		settled := slices.Equal(present, last)
		last = present
		if !requested && (!settled || (!changed && !w.file.refused.Load())) {
			continue
		}
		err := w.reload(ctx)
		w.file.refused.Store(err != nil)
		w.metrics.SettingsRefused(err != nil)
		switch {
		case err == nil:
			reason = ""
		case requested || err.Error() != reason:
			reason = err.Error()
			w.logger.ErrorContext(ctx, "settings refused: the former ones stay in force", "file", w.file.path, "error", err)
		}
	}
}

// digests returns digests of the present content of the file and the files that the tenants name,
// and whether they differ from those that are in force.
func (f *settingsFile) digests(all []*served) (present []string, changed bool) {
	present = []string{tenant.Digest(f.path)}
	inForce := []string{f.content}
	for _, t := range all {
		present = append(present, t.DigestFiles())
		inForce = append(inForce, t.Files)
	}
	return present, !slices.Equal(present, inForce)
}

// reload makes the tenants of the file those of the worker, or returns an error and changes
// nothing. Tenants whose settings are the same continue. One whose settings have changed is
// stopped and started again, so that no row is in progress while they change.
func (w *worker) reload(ctx context.Context) error {
	settings, content, err := w.file.read()
	if err != nil {
		return err
	}

	// Prepare the tenants that are new or have changed. None of them has started, and the former
	// ones are served on until all of the file is known to be good.
	former := map[string]*served{}
	for _, t := range w.tenants() {
		former[t.Name] = t
	}
	var all, next []*served
	for _, s := range settings {
		t := former[s.Name]
		if t != nil && t.Same(s) {
			delete(former, s.Name)
			all = append(all, t)
			continue
		}
		if t, err = w.serve(s); err != nil {
			break
		}
		all = append(all, t)
		next = append(next, t)
	}

	// One error refuses the whole file. Claim returns one if a name stands for another tenant of the
	// platform.
	if err == nil {
		err = w.claim(ctx, next...)
	}
	if err != nil {
		for _, t := range next {
			t.close()
		}
		return err
	}

	// Nothing can fail any more. The former tenants that are left have changed or are gone.
	w.file.content = content
	w.setTenants(all)
	w.replace(ctx, former, next)
	return nil
}

// replace stops the former tenants and starts the next ones: one of the same name when the
// former has stopped.
func (w *worker) replace(ctx context.Context, former map[string]*served, next []*served) {
	// New tenants start, changed ones after the former has ended, and removed ones end.
	w.announceOnce(ctx, next...)
	added := []string{}
	changed := []string{}
	removed := []string{}
	var all sync.WaitGroup
	for i, t := range next {
		old := former[t.Name]
		if old == nil {
			added = append(added, t.Name)
		} else {
			changed = append(changed, t.Name)
			delete(former, t.Name)
		}
		all.Go(func() {
			if old != nil {
				w.retire(old)
			}
			w.start(ctx, t, delayOf(i, len(next)))
		})
	}
	for name, t := range former {
		removed = append(removed, name)
		all.Go(func() { w.retire(t) })
	}
	all.Wait()
	if ctx.Err() != nil { // the worker stops, and may not know all of them
		for _, t := range next {
			w.stop(t)
		}
		return
	}

	// Log the changes.
	slices.Sort(removed)
	w.logger.InfoContext(ctx, "settings reloaded", "file", w.file.path, "added", added, "changed",
		changed, "removed", removed)
	for _, t := range next {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "serving tenant", t.attrs()...)
	}
}

// retire stops a tenant while the worker goes on, and gives back its rows that are still in
// progress.
func (w *worker) retire(t *served) {
	w.stop(t)
	ctx, cancel := context.WithTimeout(context.Background(), lastWrites)
	defer cancel()
	if err := t.engine.GiveBack(ctx); err != nil {
		w.logger.Warn("rows not given back: they are due within 6 minutes", "tenant", t.Name, "error", err)
	}
}
