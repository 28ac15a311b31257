// Package send is the sender's side of a replication in the fast profile: it announces an
// object, takes members in, and sends it to the group until everybody has it.
package send
