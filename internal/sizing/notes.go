package sizing

import (
	"fmt"
	"strings"
)

// notes say what the plan assumes, and what it does not know.
func (p *Plan) notes(prices Prices) []string {
	in := &p.Input
	notes := []string{
		fmt.Sprintf("Activities: %g %% are two-way, as blocks are, and have a key with both users. What a user has is spread with a "+
			"standard deviation of %g times the mean.", 100*in.TwoWay, in.Spread),
		"Pages are as made anew, with room for a twentieth more keys. Those that grew take less; after many undos a page may " +
			"take up to four times as much until it is made anew.",
	}
	if in.SeenPerDay > 0 {
		notes = append(notes, "Windows: every user has all parts, and sees about the same in each. RedisBloom takes more "+
			"than said for small parts.")
	}
	if names := in.unsized(); len(names) > 0 {
		notes = append(notes, "Not sized, since nothing says how much of it there is: "+strings.Join(names, ", ")+".")
	}
	notes = append(notes,
		fmt.Sprintf("Memory: jemalloc's size classes and a cluster's cost of a key, as on Redis 7.0. %.0f %% of a node is left to the server, "+
			"and %.0f %% of the rest is used.", 100*reserved, 100*in.Fill),
		fmt.Sprintf("CPU: measured on Redis 7.0 over loopback, without TLS, on a machine that is not one of these nodes; up to %.0f %% of one "+
			"core, %.0f %% of a burstable node's, which is a guess.", 100*cpuTarget, 100*burstTarget),
		p.networkNote(prices),
		"Feed checks come from users as often as they have activities. Writes, the scrub, replication and snapshots are not counted.",
		fmt.Sprintf("Sets: one a user, of <kind>:<id>, ids of %d bytes, as Redis 7.0 keeps them. Sets on Valkey and RedisBloom: "+
			"%g and %g bytes a key, measured on 2 million activities; the latter is scaled to the rate. RedisBloom cannot undo.",
			in.IDBytes, valkeyBytes, bloomBytes),
		"Serverless: an ECPU for each 1,000 bytes of a feed check, one at least; commands that take much CPU may cost more. "+
			"This is not from the prices.",
		fmt.Sprintf("Prices: %s, %s, %s. A month has %d hours. How many nodes a cluster may have was not checked.",
			p.Prices.Region, p.Prices.Date, p.Prices.Source, hoursPerMonth))
	return notes
}

// networkNote says whether the nodes' bandwidth was kept to.
func (p *Plan) networkNote(prices Prices) string {
	known := 0
	for _, n := range prices.Nodes {
		if n.Gbit > 0 {
			known++
		}
	}
	switch known {
	case 0:
		return "Network: without the headers of TCP. What the nodes can move was not checked: the prices do not say it."
	case len(prices.Nodes):
		return "Network: without the headers of TCP, within what the prices say that the nodes can move."
	}
	return "Network: without the headers of TCP. What nodes can move was checked only where the prices say it."
}

// unsized are the kinds with a window that nothing is known of.
func (in *Input) unsized() (names []string) {
	for _, k := range in.Kinds.All() {
		if !k.InLedger() && (k.Name != seen || in.SeenPerDay == 0) {
			names = append(names, k.Name)
		}
	}
	return names
}
