package paper

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Flow are the parameters of the server's flow control (§III-C).
type Flow struct {
	// Alpha and Beta are α and β: the timeout grows and shrinks by them. β > α > 1. The paper
	// tells no more. With 1.05 a window that was too large goes down as far as one that grows comes; with
	// a greater α one may stay above for which a timeout that has grown once is enough. With 2 the timeout
	// is the least again at once. Zero is these.
	Alpha, Beta float64
	// Timeout is dflt_Tout, the least timeout. Zero is the middle of those that the paper tries.
	Timeout time.Duration
	// MaxWindow is the greatest window: 100, "rule of thumb" (§IV-A), which zero means too.
	MaxWindow int
	// Longest is the greatest timeout. Zero is the sender's Patience.
	Longest time.Duration
}

// The values of the paper's tests (§VI), and ours for what the paper leaves open.
const (
	DefaultAlpha      = 1.05
	DefaultBeta       = 2
	DefaultTimeout    = 100 * time.Millisecond
	DefaultMaxWindow  = 100
	DefaultARTPMax    = 600 * time.Microsecond
	DefaultPatience   = 5 * time.Second
	DefaultLinger     = 3 * time.Second
	DefaultSilence    = time.Second
	DefaultGivingUp   = 30 * time.Second
	defaultRepairTime = 100 * time.Millisecond
	longestRepairTime = time.Second
)

// SenderOptions are what a sender is told.
type SenderOptions struct {
	Flow Flow
	// Address is the sender's own. With it, another server on the group is noticed.
	Address netip.AddrPort
	// LANs are the subnets that take part from the start.
	LANs []netip.Prefix
	// LAN is the sender's own subnet: who is heard from it takes part as that LAN, however large it is.
	LAN netip.Prefix
	// StrangerBits is the length of the prefix by which all other LANs are known, from which a
	// packet comes: 24. Zero lets no others take part, nor the sender's own.
	StrangerBits int
	// ErrorCorrection has an error-correction phase. On-line streams have none (§III-A).
	ErrorCorrection bool
	// Patience is how long a LAN may be silent. Zero is 5 s.
	Patience time.Duration
	// Linger is how long the unicast phase goes on after the last request. Zero is 3 s.
	Linger time.Duration
}

// Validate reports all that is wrong.
func (o SenderOptions) Validate() error {
	full := o.withDefaults()
	var wrong []error
	if f := full.Flow; f.Alpha <= 1 || f.Beta <= f.Alpha {
		wrong = append(wrong, fmt.Errorf("α is %v and β is %v: β > α > 1", f.Alpha, f.Beta))
	}
	if full.Flow.MaxWindow < 1 || full.Flow.MaxWindow > DefaultMaxWindow {
		wrong = append(wrong, fmt.Errorf("a maximum window of %d: it can be 1 to %d", full.Flow.MaxWindow, DefaultMaxWindow))
	}
	if full.Flow.Timeout < 0 || full.Patience < 0 || full.Linger < 0 || full.Flow.Longest < full.Flow.Timeout {
		wrong = append(wrong, errors.New("a time is negative, or the least timeout is greater than the longest"))
	}
	for _, lan := range o.LANs {
		if !lan.IsValid() || !lan.Addr().Is4() {
			wrong = append(wrong, fmt.Errorf("%v is no IPv4 subnet", lan))
		}
	}
	if len(o.LANs) == 0 && o.StrangerBits == 0 {
		wrong = append(wrong, errors.New("no LAN takes part, and no others may: name one, or tell how large they are"))
	}
	if o.StrangerBits < 0 || o.StrangerBits > 32 {
		wrong = append(wrong, fmt.Errorf("a prefix of %d bits: it can have 1 to 32", o.StrangerBits))
	}
	return errors.Join(wrong...)
}

func (o SenderOptions) withDefaults() SenderOptions {
	o.Flow.Alpha, o.Flow.Beta = orElse(o.Flow.Alpha, DefaultAlpha), orElse(o.Flow.Beta, DefaultBeta)
	o.Flow.Timeout = orElse(o.Flow.Timeout, DefaultTimeout)
	o.Flow.MaxWindow = orElse(o.Flow.MaxWindow, DefaultMaxWindow)
	o.Patience, o.Linger = orElse(o.Patience, DefaultPatience), orElse(o.Linger, DefaultLinger)
	o.Flow.Longest = orElse(o.Flow.Longest, o.Patience)
	return o
}

// ReceiverOptions are what a receiver is told.
type ReceiverOptions struct {
	// LAN is the receiver's own subnet: ACKs of others in it make its own needless.
	LAN netip.Prefix
	// ARTPMax is the longest time before an ACK. Zero is the paper's 600 µs.
	ARTPMax time.Duration
	// ErrorCorrection is as the sender has it.
	ErrorCorrection bool
	// Silence is after what time without the server's DATA it is asked for the next packet: the
	// end may be lost. Zero is 1 s.
	Silence time.Duration
	// GivingUp is after what time without an answer the server counts as lost. Zero is 30 s.
	GivingUp time.Duration
}

// Validate reports all that is wrong.
func (o ReceiverOptions) Validate() error {
	var wrong []error
	if !o.LAN.IsValid() {
		wrong = append(wrong, errors.New("no subnet of the receiver's own is told"))
	}
	if o.ARTPMax < 0 || o.Silence < 0 || o.GivingUp < 0 {
		wrong = append(wrong, errors.New("a time is negative"))
	}
	return errors.Join(wrong...)
}

func (o ReceiverOptions) withDefaults() ReceiverOptions {
	o.ARTPMax = orElse(o.ARTPMax, DefaultARTPMax)
	o.Silence, o.GivingUp = orElse(o.Silence, DefaultSilence), orElse(o.GivingUp, DefaultGivingUp)
	return o
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
