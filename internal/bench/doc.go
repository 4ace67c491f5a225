// Package bench measures feed checks, writes and rebuilds, for the command "feedfilter bench" and
// for the comparison with other ways of storing activities. Compared calls take turns in one run;
// medians are compared, as ratios to a PING.
package bench
