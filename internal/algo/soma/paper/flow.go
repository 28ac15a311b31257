package paper

import "time"

// flow is the server's flow control: window and timeout (§III-C).
type flow struct {
	parameters Flow
	window     int
	timeout    time.Duration
	change     int // of the window, made just before the next is sent
}

// newFlow begins as the paper's model does: "Supposing an initial window size of one" (§IV-B).
func newFlow(parameters Flow) flow {
	return flow{parameters: parameters, window: 1, timeout: parameters.Timeout}
}

// confirmed: "If the expected ACKs associated to this window have been received before the
// timer expires, the server increases the window size in one unit"; the timer becomes
// max{T_out/β, dflt_Tout}, equation (1).
func (f *flow) confirmed() {
	f.change++
	f.timeout = max(time.Duration(float64(f.timeout)/f.parameters.Beta), f.parameters.Timeout)
}

// expired: "If the timeout expires, the server decreases the window size in one unit"; "its
// value is increased multiplying it by a factor of α". Beyond the time after which a silent
// LAN is dropped, waiting is of no use.
func (f *flow) expired() {
	f.change--
	f.timeout = min(time.Duration(float64(f.timeout)*f.parameters.Alpha), f.parameters.Longest)
}

// nack: "For each NACK that indicates a different packet loss […], the server decrements the
// window size in one unit."
func (f *flow) nack() { f.change-- }

// resize: "just before sending the next data window, the server modifies the window size".
func (f *flow) resize() {
	f.window = min(max(f.window+f.change, 1), f.parameters.MaxWindow)
	f.change = 0
}

// remembered is how many packets back a NACK is known to be the first. An older one tells
// nothing of the network as it is.
const remembered = 1 << 13

// refusals are the losses that have been counted.
type refusals struct {
	seen    [remembered / 64]uint64
	through uint32 // what is after it has not been sent when the last was noted
}

// first notes a NACK, and reports whether it is the first with its number.
func (r *refusals) first(sn, sent uint32) bool {
	for ; r.through < sent; r.through++ {
		if sent-r.through > remembered {
			r.through = sent - remembered
			r.seen = [remembered / 64]uint64{}
		}
		*r.word(r.through + 1) &^= bit(r.through + 1)
	}
	if sent-sn >= remembered {
		return false
	}
	isFirst := *r.word(sn)&bit(sn) == 0
	*r.word(sn) |= bit(sn)
	return isFirst
}

func (r *refusals) word(sn uint32) *uint64 { return &r.seen[sn%remembered/64] }

func bit(sn uint32) uint64 { return 1 << (sn % 64) }
