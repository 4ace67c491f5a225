package elasticache

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
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

func (s *signer) token(ctx context.Context, credentials aws.Credentials, at time.Time) (string, error) {
	query := url.Values{"Action": {"connect"}, "User": {s.config.User}, "X-Amz-Expires": {tokenExpiry}}
	if s.config.Serverless {
		query.Set("ResourceType", "ServerlessCache")
	}
	where := "http://" + strings.ToLower(s.config.Name) + "/?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return "", err
	}
	signed, _, err := s.signer.PresignHTTP(ctx, credentials, request, emptyHash, "elasticache", s.config.Region, at)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(signed, "http://"), nil
}
