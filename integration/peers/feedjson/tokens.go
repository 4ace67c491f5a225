package feedjson

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

var errType = errors.New("a value of another type")

// readTokens reads a request token by token. The decoder refuses names twice and bad UTF-8.
func readTokens(body []byte, into *request) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	err := tokenObject(d, func(name string) error {
		switch name {
		case "viewer":
			return tokenText(d, &into.Viewer)
		case "posts":
			return tokenArray(d, func() error {
				into.Posts = append(into.Posts, post{})
				return tokenPost(d, &into.Posts[len(into.Posts)-1])
			})
		}
		return errUnknown
	})
	if err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errType
	}
	return nil
}

func tokenPost(d *jsontext.Decoder, p *post) error {
	return tokenObject(d, func(name string) error {
		switch name {
		case "id":
			return tokenText(d, &p.ID)
		case "author":
			return tokenText(d, &p.Author)
		case "actors":
			return tokenArray(d, func() error {
				p.Actors = append(p.Actors, "")
				return tokenText(d, &p.Actors[len(p.Actors)-1])
			})
		}
		return errUnknown
	})
}

func tokenObject(d *jsontext.Decoder, member func(name string) error) error {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(err, errType)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue() // as it is written: a token would be a string made for it
		if err != nil {
			return err
		}
		if len(name) < 2 {
			return errType
		}
		if err := member(string(name[1 : len(name)-1])); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func tokenArray(d *jsontext.Decoder, element func() error) error {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return errors.Join(err, errType)
	}
	for d.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func tokenText(d *jsontext.Decoder, into *string) error {
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '"' {
		return errors.Join(err, errType)
	}
	*into = t.String()
	return nil
}

// writeTokens writes an answer token by token.
func writeTokens(a *answer) ([]byte, error) {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b)
	var err error
	put := func(tokens ...jsontext.Token) {
		for _, t := range tokens {
			if err == nil {
				err = e.WriteToken(t)
			}
		}
	}
	put(jsontext.BeginObject, jsontext.String("posts"), jsontext.BeginArray)
	for _, p := range a.Posts {
		put(jsontext.BeginObject, jsontext.String("id"), jsontext.String(p.ID), jsontext.EndObject)
	}
	put(jsontext.EndArray, jsontext.String("dropped"), jsontext.BeginArray)
	for _, d := range a.Dropped {
		put(jsontext.BeginObject, jsontext.String("id"), jsontext.String(d.ID), jsontext.String("kind"), jsontext.String(d.Kind),
			jsontext.String("actor"), jsontext.String(d.Actor), jsontext.EndObject)
	}
	put(jsontext.EndArray, jsontext.String("degraded"), jsontext.BeginArray)
	for _, d := range a.Degraded {
		put(jsontext.String(d))
	}
	put(jsontext.EndArray, jsontext.EndObject)
	return b.Bytes(), err
}
