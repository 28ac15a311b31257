// Package replicator is the service that replicates files, directories and block devices to
// whole LANs by multicast.
//
// Why it is so: docs/decisions.md#replication.
package replicator
