// Package feedjson compares libraries that could read and write the JSON of a feed: how fast they are, and what they
// take that the service has to refuse.
//
//	go test -v -bench . ./feedjson
//	GOEXPERIMENT=jsonv2 go test -v -bench . ./feedjson
package feedjson

// request is what a feed's body holds, answer what is answered.
type (
	request struct {
		Viewer string `json:"viewer"`
		Posts  []post `json:"posts"`
	}
	post struct {
		ID     string   `json:"id"`
		Author string   `json:"author"`
		Actors []string `json:"actors"`
	}
	answer struct {
		Posts    []kept    `json:"posts"`
		Dropped  []dropped `json:"dropped"`
		Degraded []string  `json:"degraded"`
	}
	kept struct {
		ID string `json:"id"`
	}
	dropped struct {
		ID    string `json:"id"`
		Kind  string `json:"kind"`
		Actor string `json:"actor"`
	}
)

// library is a way to read a request and to write an answer, as strictly as it can be told to.
type library struct {
	name  string
	read  func(body []byte, into *request) error
	write func(a *answer) ([]byte, error) // nil: not its business
}
