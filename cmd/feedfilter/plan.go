package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/sizing"
)

// planCmd shares names of flags with serve, so that one --config works for both.
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

	Pages    *uint32 `help:"${plan_pages}" placeholder:"N"`
	Filter   string  `default:"feed"       help:"${filter}"         placeholder:"NAME"`
	Kinds    string  `help:"${kinds}"      placeholder:"FILE"`
	Replicas int     `default:"1"          help:"${plan_replicas}"  placeholder:"N"`
	Fill     float64 `default:"0.8"        help:"${plan_fill}"      placeholder:"SHARE"`
	NodeGiB  float64 `default:"13"         help:"${plan_node_gib}"  name:"node-gib"     placeholder:"GIB"`
	NodeGbit float64 `default:"0"          help:"${plan_node_gbit}" name:"node-gbit"    placeholder:"GBIT"`

	Result resultFlags `embed:""`
	Config string      `help:"${config}" placeholder:"FILE"`
}

// Check implements [settings.Checker]. Package sizing checks the other flags.
func (c *planCmd) Check(context.Context) error {
	var all checks
	_, err := redisstore.New(nil, c.Filter)
	all.wantf(err == nil, "--filter: %w", err)
	all.wantf(c.Pages == nil || *c.Pages != 0, "--pages: 0 is not a power of two from 1 to %d", maxPages)
	return all.err()
}

// Run prints the plan.
func (c *planCmd) Run(std stdio) error {
	in, err := c.input()
	if err != nil {
		return err
	}
	plan, err := sizing.New(in)
	if err != nil {
		return refused(err)
	}
	if c.Result.json() {
		return writeJSON(std.out, plan)
	}
	return plan.WriteText(std.out)
}

// refused turns an error of sizing about a value into one about the flag.
func refused(err error) error {
	if wrong, ok := errors.AsType[*sizing.InputError](err); ok {
		return usageError{fmt.Errorf("--%s: %s", strings.ReplaceAll(wrong.Field, "_", "-"), wrong.Problem)}
	}
	return err
}

// input returns the flags as input of sizing.
func (c *planCmd) input() (in sizing.Input, err error) {
	in = sizing.Input{
		Users: c.Users, ActivitiesPerUser: c.ActivitiesPerUser, TwoWay: c.TwoWay, SeenPerDay: c.SeenPerUserPerDay,
		FalsePositiveRate: c.FalsePositiveRate, FeedsPerSecond: c.FeedsPerSecond,
		Spread: c.Spread, Candidates: c.Candidates, IDBytes: c.IDBytes,
		Replicas: c.Replicas, Fill: c.Fill, NodeGiB: c.NodeGiB, NodeGbit: c.NodeGbit, Filter: c.Filter,
	}
	if c.Pages != nil {
		in.Pages = *c.Pages
	}
	in.Kinds, err = (&dataFlags{Kinds: c.Kinds}).kinds()
	return in, err
}
