package elasticache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	"github.com/aws/aws-sdk-go-v2/service/elasticache/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/go-json-experiment/json"
)

// description is what clients must know about a cache, as [remembered] has it, too.
type description struct {
	Cluster bool   `json:"cluster"` // clients use the cluster protocol
	TLS     bool   `json:"tls"`     // connections are encrypted
	Token   bool   `json:"token"`   // the cache requires an AUTH token
	Addr    string `json:"addr"`    // host and port of the endpoint
	// Reader is the host and port for reads from replicas. In cluster mode it equals Addr, through
	// which clients find the replicas.
	Reader string `json:"reader"`
}

// describe asks AWS once, including the retries of the SDK.
func (c *Cache) describe(ctx context.Context, timeout time.Duration) (description, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ask := c.describeGroup
	if c.config.Serverless {
		ask = c.describeServerless
	}
	d, err := ask(ctx)
	return d, explain(err)
}

func (c *Cache) describeGroup(ctx context.Context) (description, error) {
	in := &elasticache.DescribeReplicationGroupsInput{ReplicationGroupId: &c.config.Name}
	out, err := c.api.DescribeReplicationGroups(ctx, in)
	if err != nil || len(out.ReplicationGroups) == 0 {
		return description{}, cmp.Or(err, ErrNotFound)
	}
	g := out.ReplicationGroups[0]
	d := description{
		Cluster: aws.ToBool(g.ClusterEnabled),
		TLS: aws.ToBool(g.TransitEncryptionEnabled) &&
			g.TransitEncryptionMode != types.TransitEncryptionModePreferred,
		Token: aws.ToBool(g.AuthTokenEnabled),
	}
	// A cache in the mode "preferred" accepts both. Clients use TLS if they must sign in.
	d.TLS = d.TLS || aws.ToBool(g.TransitEncryptionEnabled) && c.signIn != nil
	switch {
	case d.Cluster:
		d.Addr = endpoint(g.ConfigurationEndpoint)
		d.Reader = d.Addr
	case len(g.NodeGroups) > 0:
		d.Addr = endpoint(g.NodeGroups[0].PrimaryEndpoint)
		d.Reader = endpoint(g.NodeGroups[0].ReaderEndpoint)
	}
	return d, available(d, aws.ToString(g.Status))
}

func (c *Cache) describeServerless(ctx context.Context) (description, error) {
	in := &elasticache.DescribeServerlessCachesInput{ServerlessCacheName: &c.config.Name}
	out, err := c.api.DescribeServerlessCaches(ctx, in)
	if err != nil || len(out.ServerlessCaches) == 0 {
		return description{}, cmp.Or(err, ErrNotFound)
	}
	s := out.ServerlessCaches[0]
	d := description{
		Cluster: true,
		TLS:     true,
		Addr:    endpoint(s.Endpoint),
		Reader:  endpoint(s.ReaderEndpoint),
	}
	return d, available(d, aws.ToString(s.Status))
}

func endpoint(e *types.Endpoint) string {
	if e == nil || aws.ToString(e.Address) == "" {
		return ""
	}
	return net.JoinHostPort(*e.Address, strconv.Itoa(int(aws.ToInt32(e.Port))))
}

// statusError is the status of an unusable cache. It wraps [ErrNotAvailable].
type statusError struct{ status string }

func (e *statusError) Error() string {
	return fmt.Sprintf("%v: its status is %q", ErrNotAvailable, e.status)
}
func (*statusError) Unwrap() error { return ErrNotAvailable }

// available returns an error with the status if the cache has no endpoint. A cache with an endpoint
// serves clients even while it is being changed.
func available(d description, status string) error {
	status = strings.ToLower(status) // serverless caches report statuses in other case
	if d.Addr == "" || slices.Contains([]string{"creating", "create-failed", "deleting"}, status) {
		return &statusError{status}
	}
	return nil
}

// passing reports whether the failure may be temporary.
func passing(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status != "create-failed" && status.status != "deleting"
	}
	final := []error{ErrConfig, ErrNotFound, ErrAccessDenied, ErrNoTLS}
	return !slices.ContainsFunc(final, func(target error) bool { return errors.Is(err, target) })
}

// explain turns an error reply of AWS into one of the errors of this package, with advice.
func explain(err error) error {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		switch answer.ErrorCode() {
		case "ReplicationGroupNotFoundFault", "ReplicationGroupNotFound",
			"ServerlessCacheNotFoundFault", "ServerlessCacheNotFound":
			return fmt.Errorf("%w in this account and region: %w", ErrNotFound, err)
		case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized":
			return fmt.Errorf(
				"%w: the identity of this process has to be allowed elasticache:DescribeReplicationGroups "+
					"or, of a serverless cache, elasticache:DescribeServerlessCaches: %w",
				ErrAccessDenied, err,
			)
		case "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch",
			"IncompleteSignature", "MissingAuthenticationToken", "ExpiredToken",
			"ExpiredTokenException", "RequestExpired", "OptInRequired":
			return fmt.Errorf(
				"%w: the credentials are not valid in this region at this time: %w", ErrAccessDenied, err,
			)
		case "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameterValueException",
			"ValidationError":
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	answer, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if ok && answer.HTTPStatusCode() == http.StatusForbidden {
		return fmt.Errorf("%w: %w", ErrAccessDenied, err)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf(
			"AWS cannot be reached: is the region right, and may this machine reach it: %w", err,
		)
	}
	return err
}

// remembered is the last description, as stored in Config.File.
type remembered struct {
	// Cache and Region identify the cache: another cache's file must not be used.
	Cache       string      `json:"cache"`
	Region      string      `json:"region"`
	Description description `json:",embed"`
}

// remember saves d in Config.File for the next process, if there is such a file name. A failure
// does no harm to this process.
func (c *Cache) remember(ctx context.Context, d description) {
	if c.config.File == "" {
		return
	}
	if err := c.writeFile(remembered{c.config.String(), c.config.Region, d}); err != nil {
		c.log.WarnContext(
			ctx, "the description of the cache cannot be kept", "file", c.config.File, "error", err,
		)
	}
}

func (c *Cache) writeFile(r remembered) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.config.File), 0o700); err != nil {
		return err
	}
	fresh := fmt.Sprintf("%s.%d", c.config.File, os.Getpid())
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, c.config.File)
}

// recall returns the description of this cache that remember saved last.
func (c *Cache) recall() (description, bool) {
	if c.config.File == "" {
		return description{}, false
	}
	text, err := os.ReadFile(c.config.File)
	var r remembered
	if err != nil || json.Unmarshal(text, &r, json.RejectUnknownMembers(true)) != nil ||
		r.Cache != c.config.String() || r.Region != c.config.Region || r.Description.Addr == "" {
		return description{}, false
	}
	return r.Description, true
}
