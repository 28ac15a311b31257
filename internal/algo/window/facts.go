package window

import "time"

// Rate is in bytes per second.
type Rate float64

// Facts are what was seen between the last step and this one. A controller believes none of
// them: what no link can do is taken for unknown.
type Facts struct {
	Link    Link
	Clients []Client
}

// Link is what the clients share: the access link of the gathering server, and its memory.
type Link struct {
	// Rate is what all of this node's transfers together may take. Zero is unknown.
	Rate Rate
	// Others is what this node's other transfers take of it now, such as deliveries, and the packet headers of the clients'.
	Others Rate
	// Memory is how many bytes of receive buffer the connections may be given together (001
	// §5.1: the endhost resource). Zero is without a bound.
	Memory int
}

// Client is a client that uploads, or could. Target, Minimum, Cap, Priority and MaxConnections
// come from the policy.
type Client struct {
	Name string
	// Target is what it should get, Minimum what it should get even when the targets do not fit.
	Target, Minimum Rate
	// Cap is what it may get at most. Zero is without a bound.
	Cap Rate
	// Priority decides between clients: the higher one comes first.
	Priority int
	// MaxConnections is how many it may have at most. Zero is what the controller allows.
	MaxConnections int
	// Active is whether it has something to send. A client that is not active has no part in the plan, but keeps the window
	// that a first segment needs.
	Active bool
	// Throughput is what it sent since the last step, by the bytes that were read.
	Throughput Rate
	// Remaining is how many bytes it has announced and not sent. Zero is unknown.
	Remaining uint64
	// Connections are those that are open now.
	Connections []Connection
}

// Connection is one of a client's.
type Connection struct {
	// ID is the same in every step, and never used again.
	ID uint64
	// Age is how long ago it was accepted.
	Age time.Duration
	// RTT is the round trip as the kernel has it now; LeastRTT the least that was seen on this
	// connection in the last minutes. Zero is unknown. At a receiver that is tcpi_rcv_rtt: tcpi_rtt stays what it was
	// when the connection was opened, and shows no queue.
	RTT, LeastRTT time.Duration
	// MSS is how many bytes a segment has that comes, as far as is known. Zero is unknown.
	MSS int
	// Throughput is what came over it since the last step; Received all that did.
	Throughput Rate
	Received   uint64
	// OutOfOrder is how many segments came before one that was missing, since it was opened:
	// the trace that loss leaves at a receiver (tcpi_rcv_ooopack).
	OutOfOrder uint64
	// Segments is how many segments came with data in all, for comparison: no controller uses it (tcpi_data_segs_in).
	Segments uint64
	// Window is the clamp that was set last. Zero is none. The kernel moves it by itself: when
	// the first segments tell it how much memory they take, and when it tunes the buffer
	// (unless SO_BUF_LOCK says no). So it is to be set again with every step.
	Window int
	// Offered is how many bytes the other end may still send by the windows that it was shown (tcpi_rcv_wnd): a smaller
	// window later does not take them back. Zero is unknown.
	Offered int
	// Idle is whether nothing has come since the last step.
	Idle bool
}
