package window

import "time"

// Decision is what to set until the next step.
type Decision struct {
	// Budget is the sum that the windows were cut from, in bytes: the B of 001 §3.1, the
	// receive socket buffer of 003 §III-A. If a method has no such sum, as ours, it is the sum of the windows.
	// Zero is without a bound.
	Budget int
	// Scarce is whether the windows were cut to fit the memory.
	Scarce bool
	// Available is what the access link is thought to give to the clients together. Zero is
	// unknown.
	Available Rate
	// Queue is how long segments are thought to wait before the access link. Zero is no queue, or not known, as with the
	// papers' methods.
	Queue time.Duration
	// Shares has one for each of Facts.Clients, in their order.
	Shares []Share
}

// Share is what one client gets.
type Share struct {
	Name string
	// Rate is what the windows are meant to bring. Zero if the method does not say.
	Rate Rate
	// Connections is how many it should have. Zero leaves it to the client.
	Connections int
	// Pace is how much it should be asked for per second if even the smallest window brings more than its part, or where the path is
	// short and a link is stated. Zero is no bound.
	Pace Rate
	// Bottleneck is what holds the client back, and Reason why it gets what it gets.
	Bottleneck Bottleneck
	Reason     Reason
	// Windows has one for each of Client.Connections, in their order.
	Windows []Window
}

// Window is what one connection gets.
type Window struct {
	ID uint64
	// Bytes is the clamp of its advertised window. Zero leaves it alone.
	Bytes int
	State State
}

// State says what a connection is taken for (001 §3.2). The words are log fields, metric
// labels and API values.
type State string

// The states.
const (
	// Initial is a connection that may turn out to be a short one, and is in slow start.
	Initial State = "initial"
	// Persistent is one over which more has come than a short one has.
	Persistent State = "persistent"
)

// Bottleneck is where a client's bytes are held up (001 §3.3, §5). The words are log fields,
// metric labels and API values.
type Bottleneck string

// The bottlenecks.
const (
	None       Bottleneck = "none"      // it gets what it should, or nothing is known yet
	AccessLink Bottleneck = "access"    // the link that all share is full
	Elsewhere  Bottleneck = "elsewhere" // its own path is
	AtClient   Bottleneck = "client"    // it does not send what it could
)

// Reason is why a client gets what it gets. The words are log fields, metric labels and API
// values.
type Reason string

// The reasons.
const (
	Untouched Reason = "untouched" // windows are left to the kernel
	Inactive  Reason = "inactive"  // it has nothing to send
	Target    Reason = "target"    // what its target needs
	Surplus   Reason = "surplus"   // its target, and its part of what is left over
	Minimum   Reason = "minimum"   // the targets do not fit: its minimum
	Priority  Reason = "priority"  // the targets do not fit: its minimum and more, by priority
	Ratio     Reason = "ratio"     // not even the minimums fit: its part by the ratio of targets
	Capped    Reason = "capped"    // it may not have more
	Unused    Reason = "unused"    // it did not use more, so others get that
)
