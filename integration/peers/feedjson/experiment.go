//go:build goexperiment.jsonv2

package feedjson

import "encoding/json/v2"

// experimental is the standard library's second version.
func experimental() []library {
	strict := json.RejectUnknownMembers(true)
	return []library{{
		name:  "encoding/json/v2",
		read:  func(body []byte, into *request) error { return json.Unmarshal(body, into, strict) },
		write: func(a *answer) ([]byte, error) { return json.Marshal(a) },
	}}
}
