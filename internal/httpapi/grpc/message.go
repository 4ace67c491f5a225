package grpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	pb "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// envelopeBytes is the length of the prefix of each gRPC message: one byte of flags and four bytes
// of length.
const envelopeBytes = 5

var errUnknownService = errors.New("unknown service")

// messageTypes returns the media types of single messages. Connect with JSON is not among them,
// because JSON has its own routes.
func messageTypes() []string {
	return []string{
		"application/grpc", "application/grpc+proto", "application/grpc-web", "application/grpc-web+proto", "application/proto",
	}
}

// streamTypes returns the media types of streams of messages.
func streamTypes() []string {
	return []string{"application/grpc", "application/grpc+proto", "application/connect+proto"}
}

// messageType returns the media type of a request. It fails if the type is not wanted or the
// messages are compressed.
func messageType(r *http.Request, wanted []string) (string, error) {
	for _, header := range []string{"Grpc-Encoding", "Connect-Content-Encoding"} {
		if encoding := r.Header.Get(header); encoding != "" && encoding != "identity" {
			return "", wire.Refuse(wire.CodeUnsupportedMediaType, "", "compressed messages are not supported")
		}
	}
	return wire.MediaType(r, wanted...)
}

// holdMessage returns the body of a request, whose messages count in the budget of bodies. The
// caller calls release at the end of the request. holdMessage refuses a message that is too long
// before it reads it.
func (p *procedures) holdMessage(k *wire.Call) (body io.ReadCloser, release func(), err error) {
	r := k.Request()
	media, err := messageType(r, messageTypes())
	if err != nil {
		return nil, nil, err
	}
	length, limit := r.ContentLength, p.limits.MaxBody
	var head []byte
	if strings.HasPrefix(media, "application/grpc") {
		var envelope [envelopeBytes]byte
		if _, err := io.ReadFull(r.Body, envelope[:]); err != nil {
			return nil, nil, wire.Unreadable(err)
		}
		head, limit, length = envelope[:], limit+envelopeBytes, int64(binary.BigEndian.Uint32(envelope[1:]))
	}
	if length > p.limits.MaxBody {
		wire.LeaveBody(k)
		return nil, nil, wire.TooLarge(p.limits.MaxBody)
	}
	// MaxBytesReader needs net/http's own writer to close the connection at the limit.
	rest := p.limits.Hold(k, http.MaxBytesReader(k.Response().Writer, r.Body, limit-int64(len(head))))
	return &messageBody{
		Reader: io.MultiReader(bytes.NewReader(head), rest), Closer: rest, of: p, call: k, limit: p.limits.MaxBody,
	}, rest.Release, nil
}

// messageBody is the body of a request. It turns read errors into connect errors with details,
// which connect passes on.
type messageBody struct {
	io.Reader
	io.Closer

	of    *procedures
	call  *wire.Call
	limit int64
}

// Read implements [io.Reader].
func (b *messageBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = wire.TooLarge(b.limit)
	} else {
		err = wire.Unreadable(err)
	}
	return n, b.of.problem(b.call, err)
}

// codec reads and writes Protobuf messages. Unlike connect's codec, it lets some messages use
// faster code of their own. It stores an error of reading a message in the message.
type codec struct{}

// reader is a message that reads itself from data. It does not keep a reference to data.
type reader interface{ read(data []byte) }

// appender is a message that appends its encoding to dst.
type appender interface{ appendTo(dst []byte) []byte }

// Name implements [connect.Codec]. It returns connect's name of Protobuf.
func (codec) Name() string { return "proto" }

// Marshal implements [connect.Codec].
func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend appends the encoding of the message to dst.
func (codec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case appender:
		return m.appendTo(dst), nil
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(dst, m)
	default:
		return nil, fmt.Errorf("answer: %T is not a message", message)
	}
}

// Unmarshal implements [connect.Codec].
func (codec) Unmarshal(data []byte, message any) error {
	m, ok := message.(reader)
	if !ok {
		return fmt.Errorf("request: %T is not a message", message)
	}
	m.read(data)
	return nil
}

// read implements reader.
func (m *incoming[M]) read(data []byte) {
	message, ok := any(&m.message).(proto.Message)
	if !ok {
		m.err = fmt.Errorf("request: %T is not a message", m)
		return
	}
	m.err = readMessage(data, message)
}

// readMessage adds the fields of an encoded message of the schema to a message. It checks the
// lengths of lists first, because in memory an empty message takes fifty times the bytes of its
// encoding.
func readMessage(data []byte, into proto.Message) error {
	if err := new(listLengths).check(data, into.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(data, into); err != nil {
		return wire.Refuse(wire.CodeMalformedMessage, "", "the message does not match the schema")
	}
	return nil
}

// detailOf returns a problem as a message.
func detailOf(p wire.Problem) *pb.ErrorDetail {
	return &pb.ErrorDetail{
		Code: p.Code, Message: p.Message, Field: p.Field, Limit: p.Limit, HttpStatus: uint32(p.Status()),
	}
}

// connectCode returns the gRPC code for an HTTP status, as in the table of docs/API.md.
func connectCode(status int) connect.Code {
	switch status {
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusNotFound:
		return connect.CodeNotFound
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return connect.CodeUnimplemented
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return connect.CodeDeadlineExceeded
	case http.StatusConflict:
		return connect.CodeFailedPrecondition
	case http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	case http.StatusServiceUnavailable:
		return connect.CodeUnavailable
	case http.StatusInternalServerError:
		return connect.CodeInternal
	default: // the request can never succeed
		return connect.CodeInvalidArgument
	}
}

// problem returns the connect error for err, and stores err in the call.
func (p *procedures) problem(k *wire.Call, err error) *connect.Error {
	k.Failed = err
	told := p.operations.Reports.Tell(k, err)
	e := connect.NewError(connectCode(told.Status()), errors.New(told.Message))
	if detail, err := connect.NewErrorDetail(detailOf(told)); err == nil { // it never fails: the text is valid UTF-8
		e.AddDetail(detail)
	}
	return e
}

// fail answers a request whose procedure has not begun with err, in the client's protocol.
func (p *procedures) fail(k *wire.Call, err error) {
	if _, unknown := wire.MediaType(k.Request(), append(messageTypes(), streamTypes()...)...); unknown != nil {
		p.operations.Reports.Answer(k, err) // the client does not speak gRPC or Connect
	} else if err := p.errors.Write(k.Response(), k.Request(), p.problem(k, err)); err != nil {
		p.operations.Reports.NotSent(k, err)
	}
}
