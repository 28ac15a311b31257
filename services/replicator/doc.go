// Package replicator is the service that replicates files, directories and block devices to
// whole LANs by multicast.
package replicator
