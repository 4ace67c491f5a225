// Package bench measures feed checks and related calls, for the command "feedfilter bench" and for
// the comparison with other ways of keeping activities. Calls that are compared take turns in one
// run. Their medians are compared as ratios to a PING's.
package bench
