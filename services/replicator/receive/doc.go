// Package receive is the replica's side of a replication in the fast profile: it finds the
// sender, joins, takes what is sent to the group, and has it land.
package receive
