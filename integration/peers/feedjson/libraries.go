package feedjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"

	"github.com/bytedance/sonic"
	"github.com/go-json-experiment/json"
	goccy "github.com/goccy/go-json"
	jsoniter "github.com/json-iterator/go"
	segmentio "github.com/segmentio/encoding/json"
	"github.com/valyala/fastjson"
)

func libraries() []library {
	strict := json.RejectUnknownMembers(true)
	config := sonic.Config{DisallowUnknownFields: true, ValidateString: true, UseUnicodeErrors: true, CaseSensitive: true}
	shared := config.Froze()
	config.CopyString = true
	fast := config.Froze()
	iter := jsoniter.Config{DisallowUnknownFields: true, CaseSensitive: true, ValidateJsonRawMessage: true}.Froze()
	var parser fastjson.Parser
	return append([]library{
		{
			name:  "go-json-experiment/json",
			read:  func(body []byte, into *request) error { return json.Unmarshal(body, into, strict) },
			write: func(a *answer) ([]byte, error) { return json.Marshal(a) },
		},
		{name: "its jsontext, by tokens", read: readTokens, write: writeTokens},
		{
			name: "encoding/json",
			read: func(body []byte, into *request) error {
				d := stdjson.NewDecoder(bytes.NewReader(body))
				d.DisallowUnknownFields()
				return d.Decode(into)
			},
			write: func(a *answer) ([]byte, error) { return stdjson.Marshal(a) },
		},
		{
			name:  "bytedance/sonic",
			read:  func(body []byte, into *request) error { return fast.Unmarshal(body, into) },
			write: func(a *answer) ([]byte, error) { return fast.Marshal(a) },
		},
		{
			name:  "the same, strings not copied",
			read:  func(body []byte, into *request) error { return shared.UnmarshalFromString(string(body), into) },
			write: func(a *answer) ([]byte, error) { return shared.Marshal(a) },
		},
		{
			name: "goccy/go-json",
			read: func(body []byte, into *request) error {
				d := goccy.NewDecoder(bytes.NewReader(body))
				d.DisallowUnknownFields()
				return d.Decode(into)
			},
			write: func(a *answer) ([]byte, error) { return goccy.Marshal(a) },
		},
		{
			name: "segmentio/encoding",
			read: func(body []byte, into *request) error {
				rest, err := segmentio.Parse(body, into, segmentio.DisallowUnknownFields|segmentio.DontMatchCaseInsensitiveStructFields)
				if err == nil && len(rest) > 0 {
					err = errors.New("something after the value")
				}
				return err
			},
			write: func(a *answer) ([]byte, error) { return segmentio.Append(nil, a, 0) },
		},
		{
			name:  "json-iterator/go",
			read:  func(body []byte, into *request) error { return iter.Unmarshal(body, into) },
			write: func(a *answer) ([]byte, error) { return iter.Marshal(a) },
		},
		{name: "valyala/fastjson", read: func(body []byte, into *request) error { return readFastjson(&parser, body, into) }},
	}, experimental()...)
}

// readFastjson goes through the tree that the library makes, and refuses what it does not know.
func readFastjson(p *fastjson.Parser, body []byte, into *request) (err error) {
	v, err := p.ParseBytes(body)
	if err != nil {
		return err
	}
	return visit(v, func(name string, v *fastjson.Value) error {
		switch name {
		case "viewer":
			return text(v, &into.Viewer)
		case "posts":
			values, err := v.Array()
			if err != nil {
				return err
			}
			into.Posts = make([]post, len(values))
			for i, v := range values {
				if err := readFastjsonPost(v, &into.Posts[i]); err != nil {
					return err
				}
			}
			return nil
		}
		return errUnknown
	})
}

func readFastjsonPost(v *fastjson.Value, p *post) error {
	return visit(v, func(name string, v *fastjson.Value) error {
		switch name {
		case "id":
			return text(v, &p.ID)
		case "author":
			return text(v, &p.Author)
		case "actors":
			values, err := v.Array()
			p.Actors = make([]string, len(values))
			for i := 0; i < len(values) && err == nil; i++ {
				err = text(values[i], &p.Actors[i])
			}
			return err
		}
		return errUnknown
	})
}

var errUnknown = errors.New("unknown name")

func visit(v *fastjson.Value, member func(name string, v *fastjson.Value) error) error {
	o, err := v.Object()
	if err != nil {
		return err
	}
	o.Visit(func(name []byte, v *fastjson.Value) {
		if err == nil {
			err = member(string(name), v)
		}
	})
	return err
}

func text(v *fastjson.Value, into *string) error {
	b, err := v.StringBytes()
	*into = string(b)
	return err
}
