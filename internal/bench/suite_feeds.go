package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// latency measures feed checks, one after another.
func (s *suite) latency(ctx context.Context) error {
	calls := make([]Call, len(s.Sizes))
	for i, n := range s.Sizes {
		calls[i] = s.check(n)
	}
	ping, samples, err := s.interleave(ctx, s.Duration, calls...)
	if err != nil {
		return err
	}
	if s.Server != nil {
		s.add(timed("PING", ping, 0))
	}
	goals := map[int]float64{50: 1.1, 500: 1.25, 1000: 2.1}
	for i, n := range s.Sizes {
		s.report.Points = append(s.report.Points, Point{
			Candidates: n, Ping: inMicros(ping), Check: inMicros(samples[i].Median()), Slow: inMicros(samples[i].Quantile(0.9)),
		})
		if !slices.Contains(Sizes(), n) {
			continue
		}
		row := timed(calls[i].Name, samples[i].Median(), ping)
		if goal, ok := goals[n]; ok && s.Server != nil {
			row = row.Against(Goal{Limit: goal, OfPing: true})
		}
		s.add(row)
	}
	return nil
}

// cpu measures the CPU time of feed checks and PINGs.
func (s *suite) cpu(ctx context.Context) error {
	meters := []Meter{OwnCPU}
	if s.Server != nil {
		meters = append(meters, s.Server.CPU)
	}
	calls := make([]Call, len(s.Sizes))
	for i, n := range s.Sizes {
		calls[i] = s.check(n)
	}
	usages, err := Use(ctx, s.Duration, meters, s.pingFirst(calls...)...)
	if err != nil {
		return err
	}
	if s.Server == nil {
		for i, n := range s.Sizes {
			s.report.Points[i].ClientCPU = max(0, usages[i].PerCall(0))
			if slices.Contains(Sizes(), n) {
				s.add(used(fmt.Sprintf("CPU of this process, feed check of %d", n), usages[i].PerCall(0)))
			}
		}
		return nil
	}
	ping, usages := usages[0], usages[1:]
	s.add(used("CPU of Redis, PING", ping.PerCall(1)))
	for i, n := range s.Sizes {
		s.report.Points[i].ClientCPU, s.report.Points[i].ServerCPU = max(0, usages[i].PerCall(0)), max(0, usages[i].PerCall(1))
		if slices.Contains(Sizes(), n) {
			s.add(used(fmt.Sprintf("CPU of Redis, feed check of %d", n), usages[i].PerCall(1)).Against(Goal{Limit: 20}))
		}
	}
	if i := slices.Index(s.Sizes, 500); i >= 0 {
		s.add(both(ping, usages[i]).Against(Goal{Limit: 4, OfPing: true}))
	}
	return nil
}

func used(name string, perCall float64) Row {
	if perCall < 0 {
		return unknown(name, "us", "not reported")
	}
	return Row{Name: name, Value: perCall, Unit: "us"}
}

// both returns the row of the CPU time of client and server together for a feed check of 500.
func both(ping, check Usage) Row {
	const name = "CPU of client and Redis, feed check of 500"
	if ping.PerCall(0) < 0 || ping.PerCall(1) < 0 {
		return unknown(name, "us", "not reported")
	}
	sum := check.PerCall(0) + check.PerCall(1)
	return Row{Name: name, Value: sum, Unit: "us", XPing: sum / (ping.PerCall(0) + ping.PerCall(1))}
}

// throughput measures concurrent feed checks.
func (s *suite) throughput(ctx context.Context) error {
	for i, n := range s.Sizes {
		perSecond, err := Parallel(ctx, max(s.Duration, time.Millisecond), goroutines, s.check(n))
		if err != nil {
			return err
		}
		s.report.Points[i].PerSecond = perSecond
		if slices.Contains(Sizes(), n) {
			s.add(Row{Name: fmt.Sprintf("feed checks of %d, %d goroutines", n, goroutines), Value: perSecond, Unit: "/s"})
		}
	}
	return nil
}
