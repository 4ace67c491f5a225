package httpapitest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// Results of a health check.
const (
	Serving    = healthv1.HealthCheckResponse_SERVING
	NotServing = healthv1.HealthCheckResponse_NOT_SERVING
)

// BothProtocols makes a server speak HTTP/1 and HTTP/2 without TLS, as the service does.
func BothProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// ServeBoth serves h on a real port, and returns its address.
func ServeBoth(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = BothProtocols()
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// Invoker makes a call over one protocol. Its errors have the details of the service, if any.
type Invoker func(ctx context.Context, procedure string, req, res proto.Message) error

// DialGRPC connects grpc-go.
func DialGRPC(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// OverHTTP2 returns a client of HTTP/2 without TLS.
func OverHTTP2(t testing.TB) *http.Client {
	t.Helper()
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: p}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// anyMessage makes connect's client call any procedure.
func anyMessage(httpClient *http.Client, addr string, options ...connect.ClientOption) Invoker {
	return func(ctx context.Context, procedure string, req, res proto.Message) error {
		options := append(slices.Clone(options), connect.WithCodec(wholeCodec{}))
		c := connect.NewClient[wholeMessage, wholeMessage](httpClient, "http://"+addr+procedure, options...)
		r := connect.NewRequest(&wholeMessage{req})
		if md, ok := metadata.FromOutgoingContext(ctx); ok {
			for name, values := range md {
				for _, v := range values {
					r.Header().Add(name, v)
				}
			}
		}
		got, err := c.CallUnary(ctx, r)
		if err != nil {
			return err
		}
		proto.Merge(res, got.Msg.of(res))
		return nil
	}
}

// wholeMessage is a message of any type. A received one is text until its type is known.
type wholeMessage struct{ message any }

func (m *wholeMessage) of(like proto.Message) proto.Message {
	into := like.ProtoReflect().New().Interface()
	text, _ := m.message.([]byte)
	if err := proto.Unmarshal(text, into); err != nil {
		panic(err)
	}
	return into
}

type wholeCodec struct{}

func (wholeCodec) Name() string { return "proto" }

func (wholeCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(*wholeMessage); ok {
		v = m.message
	}
	return proto.Marshal(v.(proto.Message))
}

func (wholeCodec) Unmarshal(data []byte, v any) error {
	if m, ok := v.(*wholeMessage); ok {
		m.message = slices.Clone(data)
		return nil
	}
	return proto.Unmarshal(data, v.(proto.Message))
}

// Invokers returns a client of every protocol of the service.
func Invokers(t testing.TB, addr string) map[string]Invoker {
	t.Helper()
	conn := DialGRPC(t, addr)
	http2, http1 := OverHTTP2(t), &http.Client{Transport: &http.Transport{}}
	t.Cleanup(http1.CloseIdleConnections)
	return map[string]Invoker{
		"grpc-go": func(ctx context.Context, procedure string, req, res proto.Message) error {
			return conn.Invoke(ctx, procedure, req, res)
		},
		"gRPC of connect":     anyMessage(http2, addr, connect.WithGRPC()),
		"gRPC-Web":            anyMessage(http1, addr, connect.WithGRPCWeb()),
		"Connect":             anyMessage(http1, addr),
		"Connect over HTTP/2": anyMessage(http2, addr),
	}
}

// DetailOf returns the gRPC code and the service's detail of an error.
func DetailOf(t testing.TB, err error) (connect.Code, *feedfilterv1.ErrorDetail) {
	t.Helper()
	if e, ok := errors.AsType[*connect.Error](err); ok {
		for _, d := range e.Details() {
			if v, err := d.Value(); err == nil {
				if detail, ok := v.(*feedfilterv1.ErrorDetail); ok {
					return e.Code(), detail
				}
			}
		}
		return e.Code(), nil
	}
	st, ok := status.FromError(err)
	if !ok {
		t.Fatalf("not an error of gRPC: %v", err)
	}
	for _, d := range st.Details() {
		if detail, ok := d.(*feedfilterv1.ErrorDetail); ok {
			return connect.Code(st.Code()), detail
		}
	}
	return connect.Code(st.Code()), nil
}

// Procedures that many tests call.
const (
	FilterProcedure = feedfilterv1connect.FeedServiceFilterProcedure
	RecordProcedure = feedfilterv1connect.ActivityServiceRecordProcedure
)
