package main

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/settings"
)

// liveSetting is a setting of serve that can change while it runs.
type liveSetting struct {
	flag  string
	apply func(to *serveCmd) error // has nothing to check: all settings were. Where it fails, the old one stays in force
}

// reloader takes up what has changed in the environment's file of settings, and in the files that they name.
type reloader struct {
	now   *invocation // what the service runs with
	kinds *activity.Kinds
	live  []liveSetting
	files func(context.Context) error // reads again what the files have that settings name
	log   *slog.Logger
}

// changedSetting is one that was changed, as the log has it.
type changedSetting struct {
	Setting string `json:"setting"`
	From    any    `json:"from"`
	To      any    `json:"to"`
}

// run reads all settings anew. If all are right, and what has changed can change while the service runs, that is applied;
// if not, nothing is. The files are another matter: whoever moved the audit log away must not find it written on because of a mistake
// in a setting.
func (r *reloader) run(ctx context.Context) {
	if err := r.files(ctx); err != nil {
		r.log.ErrorContext(ctx, "a file was not read again, what it had before stays", "error", err)
	}
	next, err := r.now.again(ctx)
	if err != nil {
		r.log.ErrorContext(ctx, "settings not reloaded, the old ones stay", "mistakes", mistakesOf(err))
		return
	}
	changed := r.changes(next)
	if fixed := r.fixed(changed, next); len(fixed) > 0 {
		r.log.ErrorContext(ctx, "settings not reloaded, the old ones stay: some need a restart", "settings", fixed)
		return
	}
	for _, setting := range r.live {
		i := slices.IndexFunc(changed, func(c changedSetting) bool { return c.Setting == setting.flag })
		if i < 0 {
			continue
		}
		if err := setting.apply(&next.commands.Serve); err != nil {
			r.log.ErrorContext(ctx, "a setting was not reloaded, the old one stays", "setting", setting.flag, "error", err)
			changed = slices.Delete(changed, i, i+1)
			r.keep(next, setting.flag) // so that the next SIGHUP tries again
		}
	}
	r.now = next
	// Whatever the level is: somebody has asked for it.
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "settings reloaded", 0)
	line.Add("changed", changed)
	_ = r.log.Handler().Handle(ctx, line) // there is nowhere to report that the log fails
}

// keep has next say of a setting what it was.
func (r *reloader) keep(next *invocation, flag string) {
	for i, was := range r.now.command.Settings {
		if was.Name == flag {
			next.command.Settings[i] = was
		}
	}
}

// changes are the settings that differ in next.
func (r *reloader) changes(next *invocation) []changedSetting {
	changed := []changedSetting{} // which the log shows as an empty list
	for i, was := range r.now.command.Settings {
		// The flags are the same, and so is their order.
		if is := next.command.Settings[i]; !reflect.DeepEqual(was.Value, is.Value) {
			changed = append(changed, changedSetting{was.Name, was.Masked(), is.Masked()})
		}
	}
	return changed
}

// fixed are the names of those that cannot change while the service runs.
func (r *reloader) fixed(changed []changedSetting, next *invocation) []string {
	var names []string
	for _, c := range changed {
		if !slices.ContainsFunc(r.live, func(l liveSetting) bool { return l.flag == c.Setting }) {
			names = append(names, c.Setting)
		}
	}
	kinds, err := next.commands.Serve.Data.kinds()
	if (err != nil || !slices.Equal(kinds.All(), r.kinds.All())) && !slices.Contains(names, "kinds") {
		names = append(names, "kinds") // the file that it names has changed
	}
	return names
}

// mistakesOf are the lines of an error about settings.
func mistakesOf(err error) []string {
	wrong, ok := errors.AsType[*settings.MistakesError](err)
	if !ok {
		return []string{err.Error()}
	}
	return wrong.Mistakes
}
