package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// checkCompose loads the file as docker compose does, and checks the services that result.
func checkCompose(ctx context.Context, name string) error {
	f := &findings{file: name}
	load := func(env ...string) (*types.Project, error) {
		options, err := cli.NewProjectOptions([]string{name}, cli.WithEnv(env))
		if err != nil {
			return nil, err
		}
		return options.LoadProject(ctx)
	}
	_, err := load()
	f.want(
		err != nil && strings.Contains(err.Error(), "POSTGRES_PASSWORD"),
		"no password of its own, but to be asked for one: %v", err,
	)
	const secret = "a-password-for-this-check"
	p, err := load("POSTGRES_PASSWORD=" + secret)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.want(len(p.Services) == 3, "three services, not %d", len(p.Services))
	for _, s := range p.Services {
		f.want(
			slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "%s without new privileges", s.Name,
		)
		f.want(
			!s.Privileged && s.NetworkMode == "" && s.Pid == "",
			"%s without the host's network or processes", s.Name,
		)
		f.want(tagOf(s.Image) != "" || s.Build != nil, "a tag of %s", s.Image)
		f.want(
			!strings.Contains(strings.Join(s.Command, " "), secret),
			"no password in the arguments of %s", s.Name,
		)
		if s.Name == "feedfilter" {
			continue // its image defines the health check, and it publishes a port
		}
		f.want(s.HealthCheck != nil, "a health check of %s", s.Name)
		f.want(len(s.Ports) == 0, "no ports of %s published", s.Name)
		f.want(
			len(s.Networks) == 1 && p.Networks["back"].Internal, "%s on the inner network alone", s.Name,
		)
	}
	s := p.Services["feedfilter"]
	f.want(
		s.ReadOnly && slices.Equal(s.CapDrop, []string{"ALL"}) && len(s.CapAdd) == 0,
		"a read-only service without capabilities",
	)
	f.want(
		len(s.Ports) == 1 && s.Ports[0].HostIP == "127.0.0.1" && s.Ports[0].Target == 8080,
		"port 8080 on the loopback address alone",
	)
	ledger := s.Environment["FEEDFILTER_LEDGER"]
	f.want(
		ledger != nil && strings.Contains(*ledger, ":"+secret+"@"),
		"the ledger's password to be the one that was given",
	)
	for name, on := range s.DependsOn {
		f.want(on.Condition == types.ServiceConditionHealthy, "%s to be healthy first", name)
	}
	f.want(len(s.DependsOn) == 2, "two services to wait for")
	return f.err()
}
