// Package follow keeps what tables of an app say in the ledger: it reads them in a snapshot, and
// then follows the database's changes. Those of other databases come as events (receiver.go).
//
// # Who knows what
//
// The source, the app's database, alone knows which rows there are. Its stream (pgoutput) has every
// committed change of them in order, and nothing of its catalog. Its slot keeps what the ledger
// does not have yet.
//
// The ledger alone knows how far it is: the position is recorded in the transaction that records
// the changes before it. The source hears of it later, each second, and after a crash it may know
// less. So a stream begins where the source believes that the ledger is, and what the ledger has is
// checked and skipped.
//
// The lease, a row of the ledger, says which process may write. It has a fence that grows each time
// a process takes the lease. Every transaction that records changes requires the fence of its lease
// and the position that it continues from. A follower that was stopped for an hour can therefore
// write nothing.
//
// # Parts
//
// A [Follower] has the lease, and decides whether to stream, to read the tables whole or to stop.
// One goroutine renews the lease. While the follower streams, four more work. The receiver decodes
// messages (stream.go, decode.go). The applier gathers their changes in a [group], and records it
// (apply.go). The watcher looks at the catalog (watch.go), and the auditor compares tables and
// ledger (audit.go). They tell each other in [progress] how far they are.
//
// A [Receiver] records events, and runs nothing. Both map rows to activities in the same way
// ([mapper]), do the same about rows that are not valid ([invalidRows]), and have the same figures.
//
// # How a position moves
//
//	take the lease --> inspect --> start -------------> stream --> look --> record
//	      ^               |          |                   ^  ^       |         |
//	      |               |          +--> full read -----+  +-------|---------+
//	      |               +--> stop: the log says what to mend      |
//	      +--- read whole: the catalog or the history is another ---+
//
// A full read creates the slot, reads the tables in the snapshot from which the slot begins,
// compares them with the ledger, and records what differs. Then the ledger gets its first position.
// Until then, the ledger keeps that the read has begun ([begun]). If it is interrupted, the next
// process goes on with the slot, and reads in a snapshot of its own ([moment]).
//
// The stream continues from a position if its slot has all that follows. All of this must be the
// same, too: the server, its history (timeline and last transaction), its catalog ([catalog]), and
// the file of tables. What differs is in the log as the reason of a full read.
//
// A group of transactions is recorded once a look at the catalog has found it unchanged, which
// began after the group was received ([watcher]). So a feed that waits for a position (after) has
// all that the tables said there.
//
// # Proof
//
// Once a day by default, and at once for --resync, an audit reads the tables beside the stream
// ([auditor]). It reads them at one position of the log, and compares them when the ledger has all
// up to there. What the stream changes after that position is left out ([touched]). The applier
// records what differs, and when the audit began, which is part of the position. A full read is the
// same read and comparison without a stream ([reading]).
//
// # An example
//
// The ledger is at 00000001:0/1000. The app commits a block, at 0/1100, and takes another table out
// of the publication, at 0/1200. The receiver gets the block, and the source's word that it has
// sent all up to 0/1200. The second commit may be in the log, and not visible to a look yet. But
// then its transaction still holds a lock, and the look waits for it. It finds another publication.
// Nothing is recorded: the ledger stays at 0/1000, and a feed with after 0/1100 gets 503. The
// position is cleared, and the tables are inspected: the table is not published, which follow
// --create mends, or the follower stops and says the SQL. After a full read the ledger is at
// 00000001:0/1500, say, and the feed is answered.
package follow
