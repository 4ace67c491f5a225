package elasticache

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/feedfilter/feedfilter/internal/awstest"
)

// Tokens match signatures of an independent implementation. They are valid only for their time,
// cache and user.
func TestToken(t *testing.T) {
	credentials := aws.Credentials{AccessKeyID: awstest.KeyID, SecretAccessKey: awstest.Secret}
	at := time.Date(2026, 2, 28, 23, 59, 59, 0, time.UTC)
	for _, c := range []struct {
		name, user string
		serverless bool
	}{
		{"feed", "app", false},
		{"Feed-Cache-1", "app-user-1", false}, // signed in lower case
		{"feed", "app", true},
	} {
		s := newSigner(Config{Name: c.name, User: c.user, Serverless: c.serverless, Region: awstest.Region}, nil)
		token, err := s.token(t.Context(), credentials, at)
		if err != nil {
			t.Fatal(err)
		}
		if err := awstest.CheckToken(token, c.name, c.user, c.serverless, at.Add(15*time.Minute)); err != nil {
			t.Errorf("%+v: %v: %s", c, err, token)
		}
		for what, err := range map[string]error{
			"too old":        awstest.CheckToken(token, c.name, c.user, c.serverless, at.Add(15*time.Minute+time.Second)),
			"another cache":  awstest.CheckToken(token, c.name+"x", c.user, c.serverless, at),
			"another user":   awstest.CheckToken(token, c.name, c.user+"x", c.serverless, at),
			"another kind":   awstest.CheckToken(token, c.name, c.user, !c.serverless, at),
			"tampered with":  awstest.CheckToken(strings.Replace(token, "20260228T", "20260227T", 1), c.name, c.user, c.serverless, at),
			"not a token":    awstest.CheckToken("password", c.name, c.user, c.serverless, at),
			"without a name": awstest.CheckToken(strings.TrimPrefix(token, strings.ToLower(c.name)), c.name, c.user, c.serverless, at),
		} {
			if err == nil {
				t.Errorf("%+v: a token is accepted: %s", c, what)
			}
		}
	}
}

// The token of a session is part of the signature.
func TestTokenOfASession(t *testing.T) {
	s := newSigner(Config{Name: "feed", User: "app", Region: awstest.Region}, nil)
	credentials := aws.Credentials{AccessKeyID: awstest.KeyID, SecretAccessKey: awstest.Secret, SessionToken: "session+/="}
	at := time.Now()
	token, err := s.token(t.Context(), credentials, at)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(token, "X-Amz-Security-Token=session%2B%2F%3D") {
		t.Errorf("no session in %s", token)
	}
	if err := awstest.CheckToken(token, "feed", "app", false, at); err != nil {
		t.Error(err)
	}
}

func TestParseSecret(t *testing.T) {
	for text, want := range map[string][2]string{
		"plain token":                       {"", "plain token"},
		" token\n":                          {"", "token"},
		`{"password":"p"}`:                  {"", "p"},
		`{"username":"u","password":"p"}`:   {"u", "p"},
		`{"auth_token":"t","other":[1,2]}`:  {"", "t"},
		"":                                  {},
		"{":                                 {},
		`{"username":"u"}`:                  {},
		`{"password":1}`:                    {},
		`{"password":"a","auth_token":"b"}`: {},
		`{"password":"p","password":"p"}`:   {},
		"{\"password\":\"\xff\"}":           {},
	} {
		user, password, err := parseSecret(text)
		if [2]string{user, password} != want || (err == nil) != (want[1] != "") {
			t.Errorf("%q: %q %q, %v", text, user, password, err)
		}
		if err != nil && len(text) > 2 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: the error contains the secret: %v", text, err)
		}
	}
}

// The pool closes a connection before the cache does, whatever lifetime the caller sets.
func TestLifetime(t *testing.T) {
	for _, c := range [][2]time.Duration{{0, 0}, {time.Hour, time.Minute}, {-1, 0}, {20 * time.Hour, 0}, {11 * time.Hour, 2 * time.Hour}} {
		longest, jitter := lifetime(c[0], c[1])
		if longest <= 0 || longest+jitter >= 12*time.Hour {
			t.Errorf("%v: %v ± %v", c, longest, jitter)
		}
		if c[0] == time.Hour && longest != time.Hour {
			t.Errorf("%v: %v ± %v", c, longest, jitter)
		}
	}
}
