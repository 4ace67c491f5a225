package awstest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// CheckToken returns an error unless token lets user sign in to the cache called name at that time.
// It computes the signature without the SDK, from AWS's specification. A token is valid for 15
// minutes.
//
// Source: "Signature Version 4: query parameters", AWS General Reference.
func CheckToken(token, name, user string, serverless bool, at time.Time) error {
	host, query, ok := strings.Cut(token, "/?")
	if want := strings.ToLower(name); !ok || host != want {
		return fmt.Errorf("the token is for %q", host)
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	resource := ""
	if serverless {
		resource = "ServerlessCache"
	}
	signed, err := time.Parse("20060102T150405Z", q.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	day := signed.Format("20060102")
	scope := day + "/" + Region + "/elasticache/aws4_request"
	for key, want := range map[string]string{
		"Action":              "connect",
		"User":                user,
		"ResourceType":        resource,
		"X-Amz-Expires":       "900",
		"X-Amz-SignedHeaders": "host",
		"X-Amz-Algorithm":     "AWS4-HMAC-SHA256",
		"X-Amz-Credential":    KeyID + "/" + scope,
	} {
		if got := q.Get(key); got != want {
			return fmt.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if age := at.Sub(signed); age < -5*time.Minute || age > 15*time.Minute {
		return fmt.Errorf("the token is %v old", age)
	}
	signature := q.Get("X-Amz-Signature")
	q.Del("X-Amz-Signature")
	escaped := strings.ReplaceAll(q.Encode(), "+", "%20")
	canonical := "GET\n/\n" + escaped + "\nhost:" + host + "\n\nhost\n" + hash("")
	text := "AWS4-HMAC-SHA256\n" + q.Get("X-Amz-Date") + "\n" + scope + "\n" + hash(canonical)
	key := []byte("AWS4" + Secret)
	for _, part := range []string{day, Region, "elasticache", "aws4_request"} {
		key = sign(key, part)
	}
	if hex.EncodeToString(sign(key, text)) != signature {
		return errors.New("the signature is wrong")
	}
	return nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
