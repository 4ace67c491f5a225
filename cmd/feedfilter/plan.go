package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/sizing"
)

// planCmd has the names of serve's flags for what both know, so that one --config does for both.
type planCmd struct {
	Users             float64 `help:"${plan_users}"      placeholder:"N"     required:""`
	ActivitiesPerUser float64 `help:"${plan_activities}" placeholder:"N"     required:""`
	FeedsPerSecond    float64 `help:"${plan_feeds}"      placeholder:"N"     required:""`
	FalsePositiveRate float64 `aliases:"rate"            default:"0.001"     help:"${plan_rate}" placeholder:"RATE"`
	SeenPerUserPerDay float64 `default:"0"               help:"${plan_seen}" placeholder:"N"`

	TwoWay     float64 `default:"0.2" help:"${plan_two_way}"    placeholder:"SHARE"`
	Spread     float64 `default:"3"   help:"${plan_spread}"     placeholder:"N"`
	Candidates int     `default:"500" help:"${plan_candidates}" placeholder:"N"`
	IDBytes    int     `default:"12"  help:"${plan_id_bytes}"   name:"id-bytes"     placeholder:"N"`

	Pages    *uint32 `help:"${plan_pages}"  placeholder:"N"`
	Filter   string  `default:"feed"        help:"${filter}"        placeholder:"NAME"`
	Kinds    string  `help:"${kinds}"       placeholder:"FILE"`
	Replicas int     `default:"1"           help:"${plan_replicas}" placeholder:"N"`
	Fill     float64 `default:"0.8"         help:"${plan_fill}"     placeholder:"SHARE"`
	Nodes    string  `help:"${plan_nodes}"  placeholder:"TYPE"`
	Prices   string  `help:"${plan_prices}" placeholder:"FILE"`

	Result resultFlags `embed:""`
	Chart  string      `help:"${plan_chart}" placeholder:"FILE"`
	Config string      `help:"${config}"     placeholder:"FILE"`
}

// Validate is called by kong when all flags are set. What sizing knows better it says itself.
func (c *planCmd) Validate() error {
	var all checks
	_, err := redisstore.New(nil, c.Filter)
	all.wantf(err == nil, "--filter: %w", err)
	all.wantf(c.Pages == nil || *c.Pages != 0, "--pages: 0 is not a power of two from 1 to %d", maxPages)
	return all.err()
}

// Run prints the plan.
func (c *planCmd) Run(std stdio) error {
	in, prices, err := c.input()
	if err != nil {
		return err
	}
	plan, err := sizing.New(in, prices)
	if err != nil {
		return refused(err)
	}
	if c.Chart != "" {
		if err := writeChart(c.Chart, in, prices, std); err != nil {
			return fmt.Errorf("--chart %s: %w", c.Chart, err)
		}
		if c.Chart == "-" {
			return nil
		}
	}
	if c.Result.json() {
		return writeJSON(std.out, plan)
	}
	return plan.WriteText(std.out)
}

// refused is err about a flag, in whose name values are that sizing refuses.
func refused(err error) error {
	if wrong, ok := errors.AsType[*sizing.InputError](err); ok {
		return usageError{fmt.Errorf("--%s: %s", strings.ReplaceAll(wrong.Field, "_", "-"), wrong.Problem)}
	}
	return err
}

// input is what the flags say.
func (c *planCmd) input() (sizing.Input, sizing.Prices, error) {
	in := sizing.Input{
		Users: c.Users, ActivitiesPerUser: c.ActivitiesPerUser, TwoWay: c.TwoWay, SeenPerDay: c.SeenPerUserPerDay,
		FalsePositiveRate: c.FalsePositiveRate, FeedsPerSecond: c.FeedsPerSecond,
		Spread: c.Spread, Candidates: c.Candidates, IDBytes: c.IDBytes,
		Replicas: c.Replicas, Fill: c.Fill, Node: c.Nodes, Filter: c.Filter,
	}
	if c.Pages != nil {
		in.Pages = *c.Pages
	}
	var err error
	if in.Kinds, err = (&dataFlags{Kinds: c.Kinds}).kinds(); err != nil {
		return in, sizing.Prices{}, err
	}
	if c.Prices == "" {
		return in, sizing.DefaultPrices(), nil
	}
	text, err := os.ReadFile(c.Prices)
	if err != nil {
		return in, sizing.Prices{}, usageError{fmt.Errorf("--prices: %w", err)}
	}
	prices, err := sizing.ParsePrices(text)
	if err != nil {
		return in, sizing.Prices{}, usageError{fmt.Errorf("--prices %s: %w", c.Prices, err)}
	}
	return in, prices, nil
}

// writeChart writes the chart to the named file, which appears when it is whole.
func writeChart(name string, in sizing.Input, prices sizing.Prices, std stdio) error {
	out, err := createOutput(name, std)
	if err != nil {
		return err
	}
	if err := sizing.WriteChart(out.file, in, prices); err != nil {
		return errors.Join(err, out.discard())
	}
	if err := out.commit(); err != nil {
		return errors.Join(err, out.discard())
	}
	return nil
}
