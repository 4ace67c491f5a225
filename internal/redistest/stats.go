package redistest

import (
	"context"
	"strconv"
	"strings"
	"time"
)

const infoTimeout = time.Minute

// CommandStats returns the number of calls of each command since the server started, from INFO
// commandstats. Names are in lower case; a subcommand is "client|id". Commands of scripts are
// counted too. A server that does not answer fails the test.
func (s *Server) CommandStats() map[string]int64 {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), infoTimeout)
	defer cancel()
	info, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		s.T.Fatalf("redistest: reading the command statistics of %s: %v", s.Addr(), err)
	}
	stats := make(map[string]int64)
	for line := range strings.Lines(info) {
		// cmdstat_get:calls=2,usec=9,usec_per_call=4.50,...
		entry, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_")
		if !ok {
			continue
		}
		name, rest, _ := strings.Cut(entry, ":calls=")
		digits, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			s.T.Fatalf(
				"redistest: reading the command statistics of %s: line %q: %v", s.Addr(), line, err,
			)
		}
		stats[name] = calls
	}
	return stats
}
