// Package awstest stands in for the parts of AWS that this project uses: descriptions of
// ElastiCache, secrets, and caches with IAM sign-in.
package awstest

import (
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// These are the region and credentials of the client, from examples of AWS.
const (
	Region = "eu-test-1"
	KeyID  = "AKIDEXAMPLE"
	Secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" //nolint:gosec // an example of AWS
)

// Group is a replication group.
type Group struct {
	Status      string // default: available
	Cluster     bool
	TLS         bool
	TLSMode     string // "preferred", "required", or "" for no value
	Token       bool   // an AUTH token is required
	Addr        string // configuration endpoint in cluster mode, else primary endpoint; "": none yet
	Reader      string // reader endpoint without cluster mode
	NoEndpoints bool   // no node group yet, as during creation
}

// Serverless is a serverless cache.
type Serverless struct {
	Status string // default: available
	Addr   string
	Reader string
}

// AWS answers for ElastiCache and Secrets Manager. It is safe for concurrent use.
type AWS struct {
	server *httptest.Server

	mu       sync.Mutex
	groups   map[string]Group
	caches   map[string]Serverless
	secrets  map[string]string
	failures []failure
	asked    map[string]int
}

type failure struct {
	code   string
	status int
}

// Start returns an AWS without resources. It ends with the test.
func Start(t testing.TB) *AWS {
	t.Helper()
	a := &AWS{
		groups: make(map[string]Group), caches: make(map[string]Serverless),
		secrets: make(map[string]string), asked: make(map[string]int),
	}
	a.server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.server.Close)
	return a
}

// URL returns the address of all services.
func (a *AWS) URL() string { return a.server.URL }

// Env returns the environment variables that make the SDK use this AWS.
func (a *AWS) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + a.URL(), "AWS_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=" + KeyID, "AWS_SECRET_ACCESS_KEY=" + Secret,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}
}

// Use makes the SDK use this AWS until the end of the test, in this process and its children.
func (a *AWS) Use(t testing.TB) {
	t.Helper()
	for _, variable := range a.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

// PutGroup adds or replaces a replication group.
func (a *AWS) PutGroup(id string, g Group) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.groups[id] = g
}

// PutServerless adds or replaces a serverless cache.
func (a *AWS) PutServerless(name string, s Serverless) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caches[name] = s
}

// PutSecret adds or replaces a secret.
func (a *AWS) PutSecret(id, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[id] = value
}

// Fail makes the next requests fail with that error code and HTTP status.
func (a *AWS) Fail(times int, code string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = nil
	for range times {
		a.failures = append(a.failures, failure{code, status})
	}
}

// Asked returns the number of requests of an action, such as DescribeReplicationGroups.
func (a *AWS) Asked(action string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[action]
}

func (a *AWS) serve(w http.ResponseWriter, r *http.Request) {
	_, action, isJSON := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !isJSON {
		action = r.FormValue("Action")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[action]++
	f := failure{"InvalidAction", http.StatusBadRequest}
	if len(a.failures) > 0 {
		f, a.failures = a.failures[0], a.failures[1:]
	} else {
		switch action {
		case "DescribeReplicationGroups":
			if g, ok := a.groups[r.FormValue("ReplicationGroupId")]; ok {
				writeGroup(w, r.FormValue("ReplicationGroupId"), g)
				return
			}
			f = failure{"ReplicationGroupNotFoundFault", http.StatusNotFound}
		case "DescribeServerlessCaches":
			if s, ok := a.caches[r.FormValue("ServerlessCacheName")]; ok {
				writeServerless(w, r.FormValue("ServerlessCacheName"), s)
				return
			}
			f = failure{"ServerlessCacheNotFoundFault", http.StatusNotFound}
		case "GetSecretValue":
			f = a.secretValue(w, r)
			if f.code == "" {
				return
			}
		}
	}
	writeError(w, f, isJSON)
}

func (a *AWS) secretValue(w http.ResponseWriter, r *http.Request) failure {
	var in struct {
		ID string `json:"SecretId"` //nolint:tagliatelle // as AWS spells it
	}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &in); err != nil {
		return failure{"SerializationException", http.StatusBadRequest}
	}
	value, ok := a.secrets[in.ID]
	if !ok {
		return failure{"ResourceNotFoundException", http.StatusBadRequest}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.MarshalWrite(w, map[string]string{"Name": in.ID, "SecretString": value})
	return failure{}
}

func writeError(w http.ResponseWriter, f failure, isJSON bool) {
	message := "it was made to fail with " + f.code
	if isJSON {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(f.status)
		_ = json.MarshalWrite(w, map[string]string{"__type": f.code, "message": message})
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(f.status)
	_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code>"+
		"<Message>%s</Message></Error><RequestId>r</RequestId></ErrorResponse>", f.code, message)
}

// xmlEndpoint is an endpoint in the query protocol.
type xmlEndpoint struct {
	Address string
	Port    int
}

func endpointOf(addr string) *xmlEndpoint {
	if addr == "" {
		return nil
	}
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return &xmlEndpoint{host, n}
}

func statusOf(status string) string {
	if status == "" {
		return "available"
	}
	return status
}

func writeGroup(w http.ResponseWriter, id string, g Group) {
	type nodeGroup struct {
		PrimaryEndpoint, ReaderEndpoint *xmlEndpoint
	}
	type group struct {
		//nolint:revive,staticcheck // as AWS spells it
		ReplicationGroupId, Status                                 string
		ClusterEnabled, TransitEncryptionEnabled, AuthTokenEnabled bool
		TransitEncryptionMode                                      string `xml:",omitempty"`
		ConfigurationEndpoint                                      *xmlEndpoint
		NodeGroups                                                 []nodeGroup `xml:"NodeGroups>NodeGroup"`
	}
	out := group{
		ReplicationGroupId: id, Status: statusOf(g.Status), ClusterEnabled: g.Cluster,
		TransitEncryptionEnabled: g.TLS, AuthTokenEnabled: g.Token, TransitEncryptionMode: g.TLSMode,
	}
	switch {
	case g.NoEndpoints:
	case g.Cluster:
		out.ConfigurationEndpoint = endpointOf(g.Addr)
	default:
		out.NodeGroups = []nodeGroup{{endpointOf(g.Addr), endpointOf(g.Reader)}}
	}
	writeXML(w, "DescribeReplicationGroups", struct {
		XMLName xml.Name `xml:"ReplicationGroups"`
		Group   group    `xml:"ReplicationGroup"`
	}{Group: out})
}

func writeServerless(w http.ResponseWriter, name string, s Serverless) {
	type cache struct {
		ServerlessCacheName, Status string
		Endpoint, ReaderEndpoint    *xmlEndpoint
	}
	writeXML(w, "DescribeServerlessCaches", struct {
		XMLName xml.Name `xml:"ServerlessCaches"`
		Member  cache    `xml:"member"`
	}{Member: cache{name, statusOf(s.Status), endpointOf(s.Addr), endpointOf(s.Reader)}})
}

func writeXML(w http.ResponseWriter, action string, v any) {
	text, err := xml.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	const answer = "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>"
	_, _ = fmt.Fprintf(w, answer, action, text)
}
