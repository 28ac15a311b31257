package replication

import "errors"

// Errors that the API's edge tells apart. Each is wrapped with what it is about.
var (
	// ErrNoReplicas says that nobody would get the replication.
	ErrNoReplicas = errors.New("no replicator is selected")
	// ErrNoSender says that no replicator can send.
	ErrNoSender = errors.New("no replicator can send from there")
	// ErrTooMany says that as many replications run as may, or that one would have more replicas than it may.
	ErrTooMany = errors.New("as many as may")
	// ErrAmbiguous says that several things are meant.
	ErrAmbiguous = errors.New("it is not clear which is meant")
	// ErrOffline says that the replicator that has to send is not connected.
	ErrOffline = errors.New("the replicator is offline")
)

// Why a replication fails, at one replica or as a whole. The words are those of the API.
const (
	NoMulticast  = "no_multicast"
	Damaged      = "damaged"
	Left         = "left"
	SenderLost   = "sender_lost"
	SourceFailed = "source_failed"
	Canceled     = "canceled"
	Deadline     = "deadline"
	Silent       = "silent"
	Slow         = "slow"
	NoRoom       = "no_room"
	Disk         = "disk"
	DiskStalled  = "disk_stalled"
	Refused      = "refused"
	SessionLost  = "session_lost"
	Revoked      = "revoked"
)

// reasons are all of them.
var reasons = []string{NoMulticast, Damaged, Left, SenderLost, SourceFailed, Canceled, Deadline, Silent, Slow, NoRoom, Disk, DiskStalled, Refused, SessionLost, Revoked}

// replicaReasons are those that a replica can give for itself, senderReasons those that the
// sender can.
var (
	replicaReasons = []string{NoRoom, Damaged, Disk, DiskStalled, Refused, NoMulticast, SenderLost, SourceFailed, SessionLost, Slow}
	senderReasons  = []string{SourceFailed, NoMulticast}
)
