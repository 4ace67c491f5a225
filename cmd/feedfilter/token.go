package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/internal/access"
)

// tokenVariable holds the token that commands send to a service. There is no flag for it, because
// other users of the machine can read command lines.
const tokenVariable = "FEEDFILTER_TOKEN"

// tokenCmds manage tokens.
type tokenCmds struct {
	New    tokenNewCmd    `cmd:"" help:"Create a token and print it once, with its entry for the token file."`
	Remove tokenRemoveCmd `cmd:"" help:"Remove tokens from a token file; services refuse them within seconds."`
	Check  tokenCheckCmd  `cmd:"" help:"Check a token file, and a token against it."`
}

type tokenNewCmd struct {
	Name     string         `help:"${token_name}"                                            placeholder:"NAME"     required:""`
	Scope    []access.Scope `enum:"feed:read,activity:write,source:write,ops:read,ops:write" help:"${token_scope}"  placeholder:"SCOPE" required:""`
	TTL      time.Duration  `help:"${token_ttl}"                                             placeholder:"DURATION"`
	Rate     access.Rate    `help:"${token_rate}"                                            placeholder:"RATE"`
	AuthFile string         `help:"${token_append}"                                          placeholder:"FILE"`
}

// Check implements [settings.Checker].
func (c *tokenNewCmd) Check(context.Context) error {
	if c.TTL < 0 {
		return fmt.Errorf("--ttl: %v is negative", c.TTL)
	}
	return nil
}

// Run creates a token.
func (c *tokenNewCmd) Run(_ context.Context, std stdio) error {
	token := access.NewToken()
	entry := access.Entry{Name: c.Name, Hash: access.HashToken(token), Scopes: c.Scope}
	if c.TTL > 0 {
		entry.Expires = time.Now().Add(c.TTL).UTC().Truncate(time.Second)
	}
	if c.Rate.PerSecond > 0 {
		entry.Rate = &c.Rate.PerSecond
	}
	if c.Rate.Burst > 0 {
		entry.Burst = &c.Rate.Burst
	}
	file, err := c.add(entry)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if _, err := fmt.Fprintln(std.out, token); err != nil { // before the file accepts the token
		return err
	}
	if c.AuthFile == "" {
		return writeJSON(std.out, entry)
	}
	return writeTokens(c.AuthFile, file, std)
}

// add returns the content of the token file with the entry added.
func (c *tokenNewCmd) add(entry access.Entry) (access.File, error) {
	var file access.File
	if c.AuthFile != "" {
		var err error
		if file, err = readTokens(c.AuthFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	file.Tokens = append(file.Tokens, entry)
	if err := file.Check(); err != nil {
		return file, usageError{err}
	}
	return file, nil
}

// readTokens reads a token file.
func readTokens(name string) (access.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return access.File{}, fmt.Errorf("--auth-file: %w", err)
	}
	file, err := access.ParseFile(text)
	if err != nil {
		return access.File{}, fmt.Errorf("--auth-file %s: %w", name, err)
	}
	return file, nil
}

// writeTokens replaces a token file atomically, and keeps its owner and mode.
func writeTokens(name string, file access.File, std stdio) (err error) {
	out, err := createOutput(name, std)
	if err != nil {
		return err
	}
	if info, err := os.Stat(name); err == nil { // the service may run as another user
		keepOwner(out.file, info)
		_ = out.file.Chmod(info.Mode().Perm())
	}
	if err = out.end(writeJSON(out.file, file)); err != nil {
		return fmt.Errorf("--auth-file: %w", err)
	}
	return nil
}

type tokenRemoveCmd struct {
	Name     []string `arg:""               help:"${token_removed}"`
	AuthFile string   `help:"${token_auth}" placeholder:"FILE"      required:""`
}

// Run removes all named tokens from a file, or none.
func (c *tokenRemoveCmd) Run(_ context.Context, std stdio) error {
	file, err := readTokens(c.AuthFile)
	if err != nil {
		return err
	}
	for _, name := range c.Name {
		i := slices.IndexFunc(file.Tokens, func(e access.Entry) bool { return e.Name == name })
		if i < 0 {
			return fmt.Errorf("--auth-file %s: no token named %q", c.AuthFile, name)
		}
		file.Tokens = slices.Delete(file.Tokens, i, i+1)
	}
	if len(file.Tokens) == 0 {
		return fmt.Errorf(
			"--auth-file %s: this is the last token, and a service requires one: "+
				"add another token first", c.AuthFile,
		)
	}
	return writeTokens(c.AuthFile, file, std)
}

type tokenCheckCmd struct {
	AuthFile  string `help:"${token_auth}"    placeholder:"FILE" required:""`
	TokenFile string `help:"${token_checked}" placeholder:"FILE"`
}

// Run checks the file, and looks up a token in it, if there is one.
func (c *tokenCheckCmd) Run(ctx context.Context, std stdio) error {
	tokens, err := access.OpenTokens(access.TokensConfig{File: c.AuthFile})
	if err != nil {
		return fmt.Errorf("--auth-file: %w", err)
	}
	token, err := c.token(ctx, std)
	if err != nil || token == "" {
		if err == nil {
			_, err = fmt.Fprintln(
				std.out, "ok: the file is valid; no token was looked up: see --token-file",
			)
		}
		return err
	}
	found, err := tokens.Check([]string{"Bearer " + token})
	if err != nil {
		return fmt.Errorf("token refused: %w", err)
	}
	_, err = fmt.Fprintf(std.out, "ok: %s, with %v\n", found.Name, found.Scopes)
	return err
}

// token returns the token to look up, "" if there is none.
func (c *tokenCheckCmd) token(ctx context.Context, std stdio) (string, error) {
	if c.TokenFile == "-" {
		text, err := io.ReadAll(std.in)
		return oneToken(c.TokenFile, text, err)
	}
	return clientFlags{c.TokenFile}.token(ctx)
}

// clientFlags are the flags of commands that call a service.
type clientFlags struct {
	TokenFile string `help:"${token_file}" placeholder:"FILE"`
}

// token returns the token to send, "" if there is none.
func (f clientFlags) token(context.Context) (string, error) {
	if f.TokenFile == "" {
		return strings.TrimSpace(os.Getenv(tokenVariable)), nil
	}
	text, err := os.ReadFile(f.TokenFile)
	return oneToken(f.TokenFile, text, err)
}

// oneToken returns the token in the text of --token-file.
func oneToken(name string, text []byte, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("--token-file %s: want exactly one token", name)
	}
	return token, nil
}
