// Command print writes the OpenAPI document of a service with the built-in kinds to standard
// output. Clients in other languages are generated from it.
package main

import (
	"fmt"
	"os"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

func main() {
	document, err := openapi.Document(activity.BuiltinKinds())
	if err == nil {
		_, err = os.Stdout.Write(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "print:", err)
		os.Exit(1)
	}
}
