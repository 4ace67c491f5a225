// Package bench measures feed checks and what belongs to them, in one way for the command
// "feedfilter bench" and for the comparison with other ways of keeping activities: calls that are
// compared take turns in one run, and medians are compared, as ratios to a PING's.
package bench
