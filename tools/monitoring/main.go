// Monitoring checks the rules for Prometheus and the dashboard for Grafana, with Prometheus' own
// parser and engine:
//
//	monitoring test <rules tests>...                                what promtool test rules does
//	monitoring names <catalogue> <feedfilter> <rules> <dashboard>   checks that the names exist
//
// The catalogue is docs/METRICS.md. feedfilter is the program; it is started to see what it
// exports.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: monitoring test|names")
	}
	switch name, args := args[0], args[1:]; {
	case name == "test" && len(args) > 0:
		for _, file := range args {
			if err := testRules(file); err != nil {
				return err
			}
		}
		return nil
	case name == "names" && len(args) == 4:
		return checkNames(args[0], args[1], args[2], args[3])
	default:
		return fmt.Errorf("monitoring %s: no such check, or not its arguments", name)
	}
}
