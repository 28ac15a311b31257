package fast

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"
)

const (
	pollSize   = 24 + RootSize
	reportSize = 32 + RootSize
	wantSize   = 16
	// MaxWants is how many wants fit into every datagram.
	MaxWants = (MinDatagram - Overhead - reportSize) / wantSize
)

// Polled is what a sender asks of all members.
type Polled struct {
	Poll    uint32
	Passed  uint32 // blocks before it were sent
	Slot    time.Duration
	Hold    time.Duration
	Members uint16
	Every   uint16
	Turn    uint16
	Slowest uint16
	Root    [RootSize]byte // zero before it is known
}

// Append writes the payload of a POLL.
func (p Polled) Append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, p.Poll)
	to = binary.BigEndian.AppendUint32(to, p.Passed)
	to = appendMicroseconds(to, p.Slot)
	to = appendMicroseconds(to, p.Hold)
	for _, n := range []uint16{p.Members, p.Every, p.Turn, p.Slowest} {
		to = binary.BigEndian.AppendUint16(to, n)
	}
	return append(to, p.Root[:]...)
}

func appendMicroseconds(to []byte, d time.Duration) []byte {
	return binary.BigEndian.AppendUint32(to, uint32(min(max(d.Microseconds(), 0), 1<<32-1)))
}

func microseconds(from []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(from)) * time.Microsecond
}

// ParsePoll reads the payload of a POLL.
func ParsePoll(from []byte) (Polled, error) {
	if len(from) != pollSize {
		return Polled{}, fmt.Errorf("%w: POLL of %d bytes", ErrProtocol, len(from))
	}
	p := Polled{
		Poll: binary.BigEndian.Uint32(from), Passed: binary.BigEndian.Uint32(from[4:]),
		Slot: microseconds(from[8:]), Hold: microseconds(from[12:]),
		Members: binary.BigEndian.Uint16(from[16:]), Every: binary.BigEndian.Uint16(from[18:]),
		Turn: binary.BigEndian.Uint16(from[20:]), Slowest: binary.BigEndian.Uint16(from[22:]),
		Root: [RootSize]byte(from[24:]),
	}
	if p.Every == 0 {
		return Polled{}, fmt.Errorf("%w: POLL that nobody answers", ErrProtocol)
	}
	return p, nil
}

// State is how far a member is.
type State uint8

// The states.
const (
	Receiving State = iota // it wants blocks
	Landed                 // it has all of them, and wants the seal
	Settling               // it has compared the root, and puts what it has on disk
	Complete               // it is there, under its name
	Failed                 // it will not be, for a reason
)

// Reason says why a member failed, in the words of the managers' receipts.
type Reason uint8

// The reasons.
const (
	NoReason Reason = iota
	NoRoom          // its disk is full
	Damaged         // the root is another
	Disk            // its disk or file system refused something
	Refused         // its user or configuration does
	Left            // its user has ended it
)

func (r Reason) String() string {
	return [...]string{"", "no_room", "damaged", "disk", "refused", "left"}[min(r, Left)]
}

// Want is what a member misses: Run whole blocks, or Need packets of a block that misses
// those of Missing.
type Want struct {
	Block   uint32
	Run     uint16
	Need    uint8
	Missing uint64
}

// Reported is what a member says.
type Reported struct {
	Poll     uint32 // the latest
	Held     time.Duration
	Seen     uint64 // after the highest number that came
	Received uint64 // datagrams to the group that came
	Frontier uint32 // blocks before it are there
	State    State
	Reason   Reason
	Taken    uint16 // packets and shards of use that came: from one on, over and over; zero if it does not tell
	Root     [RootSize]byte
	Wants    []Want
}

// Append writes the payload of a REPORT; of its wants, the first MaxWants.
func (r Reported) Append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, r.Poll)
	to = appendMicroseconds(to, r.Held)
	to = binary.BigEndian.AppendUint64(to, r.Seen)
	to = binary.BigEndian.AppendUint64(to, r.Received)
	to = binary.BigEndian.AppendUint32(to, r.Frontier)
	to = append(to, byte(r.State), byte(r.Reason))
	to = binary.BigEndian.AppendUint16(to, r.Taken)
	to = append(to, r.Root[:]...)
	for _, w := range r.Wants[:min(len(r.Wants), MaxWants)] {
		to = binary.BigEndian.AppendUint32(to, w.Block)
		to = binary.BigEndian.AppendUint16(to, w.Run)
		to = append(to, w.Need, 0)
		to = binary.BigEndian.AppendUint64(to, w.Missing)
	}
	return to
}

// ParseReport reads the payload of a REPORT.
func ParseReport(from []byte) (Reported, error) {
	if len(from) < reportSize || (len(from)-reportSize)%wantSize != 0 || (len(from)-reportSize)/wantSize > MaxWants {
		return Reported{}, fmt.Errorf("%w: REPORT of %d bytes", ErrProtocol, len(from))
	}
	r := Reported{
		Poll: binary.BigEndian.Uint32(from), Held: microseconds(from[4:]),
		Seen: binary.BigEndian.Uint64(from[8:]), Received: binary.BigEndian.Uint64(from[16:]),
		Frontier: binary.BigEndian.Uint32(from[24:]), State: State(from[28]), Reason: Reason(from[29]),
		Taken: binary.BigEndian.Uint16(from[30:]), Root: [RootSize]byte(from[32:]),
	}
	if r.State > Failed || r.Reason > Left || r.Seen > MaxNumber+1 {
		return Reported{}, fmt.Errorf("%w: REPORT of state %d, reason %d, %d seen", ErrProtocol, r.State, r.Reason, r.Seen)
	}
	for rest := from[reportSize:]; len(rest) > 0; rest = rest[wantSize:] {
		w := Want{
			Block: binary.BigEndian.Uint32(rest), Run: binary.BigEndian.Uint16(rest[4:]),
			Need: rest[6], Missing: binary.BigEndian.Uint64(rest[8:]),
		}
		if w.Run == 0 && (w.Need == 0 || int(w.Need) > bits.OnesCount64(w.Missing)) {
			return Reported{}, fmt.Errorf("%w: a want for %d of %d packets", ErrProtocol, w.Need, bits.OnesCount64(w.Missing))
		}
		r.Wants = append(r.Wants, w)
	}
	return r, nil
}

// AppendZero writes the payload of a ZERO.
func AppendZero(to []byte, blocks uint32) []byte { return binary.BigEndian.AppendUint32(to, blocks) }

// ParseZero reads the payload of a ZERO.
func ParseZero(from []byte) (blocks uint32, err error) {
	if len(from) != 4 || binary.BigEndian.Uint32(from) == 0 {
		return 0, fmt.Errorf("%w: ZERO of %d bytes", ErrProtocol, len(from))
	}
	return binary.BigEndian.Uint32(from), nil
}
