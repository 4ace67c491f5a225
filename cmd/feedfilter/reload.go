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

// liveSettings has the flags of serve that can change while it runs. The functions set a checked
// value; after an error, the old value stays.
type liveSettings map[string]func(to *serveCmd) error

// reloader applies changes of the settings, and rereads the files that they name.
type reloader struct {
	now   *invocation // with the current settings
	kinds *activity.Kinds
	live  liveSettings
	files func(context.Context) error // rereads the files that settings name
	log   *slog.Logger
}

// changedSetting is a changed setting in the log.
type changedSetting struct {
	Setting string `json:"setting"`
	From    any    `json:"from"`
	To      any    `json:"to"`
}

// run rereads all settings. It applies the changes if all settings are valid and can change at run
// time; otherwise it applies none. It rereads the files in both cases: after log rotation, a
// mistake in a setting must not delay the new audit log.
func (r *reloader) run(ctx context.Context) {
	if err := r.files(ctx); err != nil {
		r.log.ErrorContext(ctx, "file not reloaded, its previous content stays in force", "error", err)
	}
	next, err := invoke(ctx, r.now.args, r.now.std)
	if err != nil {
		r.log.ErrorContext(ctx, "settings not reloaded: invalid", "mistakes", mistakesOf(err))
		return
	}
	changed := r.changes(next)
	if fixed := r.fixed(changed, next); len(fixed) > 0 {
		r.log.ErrorContext(ctx, "settings not reloaded: restart required", "settings", fixed)
		return
	}
	changed = slices.DeleteFunc(changed, func(c changedSetting) bool {
		err := r.live[c.Setting](&next.commands.Serve)
		if err != nil {
			r.log.ErrorContext(ctx, "setting not reloaded", "setting", c.Setting, "error", err)
			r.keep(next, c.Setting) // so that the next SIGHUP retries
		}
		return err != nil
	})
	r.now = next
	// At any log level, because an operator asked for the reload.
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "settings reloaded", 0)
	line.Add("changed", changed)
	_ = r.log.Handler().Handle(ctx, line) // an error cannot be reported
}

// keep sets a setting of next to its current value.
func (r *reloader) keep(next *invocation, flag string) {
	for i, was := range r.now.command.Settings {
		if was.Name == flag {
			next.command.Settings[i] = was
		}
	}
}

// changes returns the settings that differ in next.
func (r *reloader) changes(next *invocation) []changedSetting {
	changed := []changedSetting{} // not nil: the log shows an empty list
	for i, was := range r.now.command.Settings {
		// Both have the same flags in the same order.
		if is := next.command.Settings[i]; !reflect.DeepEqual(was.Value, is.Value) {
			changed = append(changed, changedSetting{was.Name, was.Masked(), is.Masked()})
		}
	}
	return changed
}

// fixed returns the names of changed settings that cannot change at run time.
func (r *reloader) fixed(changed []changedSetting, next *invocation) []string {
	var names []string
	for _, c := range changed {
		if r.live[c.Setting] == nil {
			names = append(names, c.Setting)
		}
	}
	if slices.Contains(names, "kinds") {
		return names
	}
	kinds, err := next.commands.Serve.Data.kinds()
	if err != nil || !slices.EqualFunc(kinds.All(), r.kinds.All(), activity.Kind.Equal) {
		names = append(names, "kinds") // the content of the file has changed
	}
	return names
}

// mistakesOf returns the mistakes in an error about settings.
func mistakesOf(err error) []string {
	wrong, ok := errors.AsType[*settings.MistakesError](err)
	if !ok {
		return []string{err.Error()}
	}
	return wrong.Mistakes
}
