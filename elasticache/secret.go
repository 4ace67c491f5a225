package elasticache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/go-json-experiment/json"
)

const (
	// secretAge is how old a secret may be that a connection is made with. A rotation
	// leaves minutes between the moment that the secret has the new token and that when
	// the cache no longer takes the old.
	secretAge = 5 * time.Second
	// secretPatience is how long a new secret is waited for where an older one is known.
	secretPatience = 500 * time.Millisecond
	// secretTimeout bounds one reading of the secret.
	secretTimeout = 5 * time.Second
)

// secretReader reads secrets; what [secretsmanager.Client] has of it.
type secretReader interface {
	GetSecretValue(
		ctx context.Context, in *secretsmanager.GetSecretValueInput, options ...func(*secretsmanager.Options),
	) (*secretsmanager.GetSecretValueOutput, error)
}

// secret signs in with a password that Secrets Manager keeps.
type secret struct {
	id  string
	api secretReader
	log *slog.Logger

	mu             sync.Mutex
	asked          time.Time     // when the secret was read last, or was not to be had
	known          bool          // it was read once
	user, password string        // what it was then
	err            error         // why it was not to be had
	reading        chan struct{} // closed when the reading that is under way has ended; nil: none is
}

// signIn returns the secret as it stood at most secretAge ago. It waits for it no longer than ctx allows, and for
// secretPatience if there is an older one.
func (s *secret) signIn(ctx context.Context) (user, password string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || time.Since(s.asked) >= secretAge {
		if s.reading == nil {
			s.reading = make(chan struct{})
			go s.read(context.WithoutCancel(ctx), s.reading) // for whoever comes, so ctx does not end it
		}
		var patience <-chan time.Time
		if s.known {
			patience = time.After(secretPatience)
		}
		reading := s.reading
		s.mu.Unlock()
		select {
		case <-reading:
		case <-patience:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	switch {
	case s.known:
		return s.user, s.password, nil
	case s.err != nil:
		return "", "", fmt.Errorf("sign in: read secret %s: %w", s.id, s.err)
	default:
		return "", "", fmt.Errorf("sign in: read secret %s: %w", s.id, ctx.Err())
	}
}

// read reads the secret, and closes done.
func (s *secret) read(ctx context.Context, done chan struct{}) {
	user, password, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = nil
	close(done)
	s.asked, s.err = time.Now(), err
	if err == nil {
		s.known, s.user, s.password = true, user, password
		return
	}
	if s.known {
		s.log.WarnContext(ctx, "the secret cannot be read, what it was is used", "secret", s.id, "error", err)
	}
}

func (s *secret) fetch(ctx context.Context) (user, password string, err error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	out, err := s.api.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.id})
	if err != nil {
		return "", "", err
	}
	return parseSecret(aws.ToString(out.SecretString))
}

var errSecret = errors.New(`it is neither an AUTH token nor a JSON object with a "password" and, if need be, a "username"`)

// parseSecret reads a secret, of which errors show nothing.
func parseSecret(text string) (user, password string, err error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		if text == "" {
			return "", "", errSecret
		}
		return "", text, nil
	}
	// Rotation functions keep other fields there too.
	var object struct {
		Username  string `json:"username"`
		Password  string `json:"password"`
		AuthToken string `json:"auth_token"`
	}
	if json.Unmarshal([]byte(text), &object) != nil || (object.Password == "") == (object.AuthToken == "") {
		return "", "", errSecret
	}
	return object.Username, object.Password + object.AuthToken, nil
}
