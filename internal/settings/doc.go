// Package settings brings together what the flags of a command are set to: on the command line, in the environment or in a JSON
// file, in this order of precedence, or by default. It names every mistake in any of them at once, each with where it stands.
//
// The flags are those of a kong parser, made with [kong.DefaultEnvars], so that nothing has to be said of a flag twice.
package settings
