package elasticache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/go-json-experiment/json"
)

const (
	// tokenExpiry is how long a token is valid for signing in, in seconds: the maximum.
	tokenExpiry = "900"
	// emptyHash is the SHA-256 of a request without a body.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// signer signs in with IAM. The password is a request to connect, signed with the AWS credentials.
//
// Source: "Authenticating with IAM", Amazon ElastiCache User Guide.
type signer struct {
	config      Config
	credentials aws.CredentialsProvider
	signer      *v4.Signer
}

func newSigner(c Config, credentials aws.CredentialsProvider) *signer {
	return &signer{config: c, credentials: credentials, signer: v4.NewSigner()}
}

// signIn creates a separate token for each connection, which takes tens of microseconds. The SDK
// caches the credentials.
func (s *signer) signIn(ctx context.Context) (user, password string, err error) {
	credentials, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return "", "", fmt.Errorf("sign in to %s: AWS credentials: %w", &s.config, err)
	}
	token, err := s.token(ctx, credentials, time.Now())
	if err != nil {
		return "", "", fmt.Errorf("sign in to %s: %w", &s.config, err)
	}
	return s.config.User, token, nil
}

func (s *signer) token(
	ctx context.Context, credentials aws.Credentials, at time.Time,
) (string, error) {
	query := url.Values{
		"Action":        {"connect"},
		"User":          {s.config.User},
		"X-Amz-Expires": {tokenExpiry},
	}
	if s.config.Serverless {
		query.Set("ResourceType", "ServerlessCache")
	}
	where := "http://" + strings.ToLower(s.config.Name) + "/?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return "", err
	}
	signed, _, err := s.signer.PresignHTTP(
		ctx, credentials, request, emptyHash, "elasticache", s.config.Region, at,
	)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(signed, "http://"), nil
}

const (
	// secretAge is the maximum age of the secret with which a connection is made. In a rotation,
	// the cache accepts the old token for minutes after the secret contains the new one.
	secretAge = 5 * time.Second
	// secretPatience is how long signIn waits for a new secret if an older one is known.
	secretPatience = 500 * time.Millisecond
	// secretTimeout is the timeout of one read of the secret.
	secretTimeout = 5 * time.Second
)

// secretReader reads secrets. It has the methods of [secretsmanager.Client] that this package uses.
type secretReader interface {
	GetSecretValue(
		ctx context.Context, in *secretsmanager.GetSecretValueInput,
		options ...func(*secretsmanager.Options),
	) (*secretsmanager.GetSecretValueOutput, error)
}

// secret signs in with a password from Secrets Manager.
type secret struct {
	id  string
	api secretReader
	log *slog.Logger

	mu             sync.Mutex
	asked          time.Time     // time of the last read, successful or not
	known          bool          // a read has succeeded
	user, password string        // result of the last successful read
	err            error         // error of the last read
	reading        chan struct{} // closed when the current read ends; nil: no read is running
}

// signIn returns a secret that was read at most secretAge ago. It waits for a read until ctx ends.
// If an older secret is known, it waits for at most secretPatience, and returns the older secret if
// the read fails or takes longer.
func (s *secret) signIn(ctx context.Context) (user, password string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || time.Since(s.asked) >= secretAge {
		if s.reading == nil {
			s.reading = make(chan struct{})
			// Other callers wait for the read too, so ctx does not end it.
			go s.read(context.WithoutCancel(ctx), s.reading)
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
	if !s.known {
		return "", "", fmt.Errorf("sign in: read secret %s: %w", s.id, cmp.Or(s.err, ctx.Err()))
	}
	return s.user, s.password, nil
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
		s.log.WarnContext(
			ctx, "the secret cannot be read, what it was is used", "secret", s.id, "error", err,
		)
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

var errSecret = errors.New(
	`it is neither an AUTH token nor a JSON object with a "password" and, if need be, a "username"`,
)

// parseSecret parses a secret. Its errors contain no part of the secret.
func parseSecret(text string) (user, password string, err error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		if text == "" {
			return "", "", errSecret
		}
		return "", text, nil
	}
	// Rotation functions store other fields there too.
	var object struct {
		Username  string `json:"username"`
		Password  string `json:"password"`
		AuthToken string `json:"auth_token"`
	}
	if json.Unmarshal([]byte(text), &object) != nil ||
		(object.Password == "") == (object.AuthToken == "") {
		return "", "", errSecret
	}
	return object.Username, object.Password + object.AuthToken, nil
}
