package send

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// RivalError says that another sender has the key, and goes on.
type RivalError struct {
	Sender   netip.Addr
	Name     string
	Length   uint64
	HasBegun bool
}

func (e *RivalError) Error() string {
	does := "is about to send"
	if e.HasBegun {
		does = "sends"
	}
	return fmt.Sprintf("another sender has this key and goes first: %v %s %s (%s); wait until it has ended, or send with another key",
		e.Sender, does, printable.Text(e.Name), bytesize.Short(e.Length))
}

const (
	// mostRivals is of how many other sessions it is noted how much of them was answered.
	mostRivals = 64
	// yieldFor is how long a sender that ends tells receivers that still join it: they have heard it, and looked at their disks since.
	yieldFor = 250 * time.Millisecond
	// atOnce is how far apart two senders may begin, or start, to count as doing so at once.
	atOnce = 100 * time.Millisecond
)

// rivals is what was heard of other senders with the key.
type rivals struct {
	heard  map[uint32]uint64 // by session: after the highest number of an announcement that was answered
	number uint64            // of the next FENCE
}

// isNew notes the number of an announcement, and reports whether it is the first with it: an announcement that somebody
// repeats is answered no more often than it was made.
func (r *rivals) isNew(session uint32, number uint64) bool {
	next, known := r.heard[session]
	if known && number < next || !known && len(r.heard) >= mostRivals {
		return false
	}
	if r.heard == nil {
		r.heard = map[uint32]uint64{}
	}
	r.heard[session] = number + 1
	return true
}

// another tells another sender that announces something of this one. What the other announces ends nobody: anybody may have recorded
// it. The other does the same, and what it tells has an effect here, for only a sender that lives can write it.
func (s *session) another(datagram []byte, _ netip.AddrPort) {
	head, err := wire.ParseHead(datagram)
	if err != nil || head.Kind != wire.Announce || head.Session == s.salt.Session() {
		return
	}
	other, err := wire.OpenAnnouncement(s.config.Key, head, datagram)
	if err != nil || !s.rivals.isNew(head.Session, head.Number) {
		return
	}
	s.mu.Lock()
	own, hasEnded := wire.Fencing{Announcement: s.announcement(), Salt: s.salt, Age: s.age()}, s.rival != nil
	s.mu.Unlock()
	if hasEnded {
		return
	}
	_ = s.socket.Send(other.Secret.Fence(s.rivals.number, own), other.Sender)
	s.rivals.number++
}

// fence takes what another sender tells this one. The caller has the lock.
func (s *session) fence(head wire.Head, datagram []byte) {
	if s.others == nil || s.rival != nil {
		return
	}
	other, err := s.secrets.current.OpenFence(head, datagram)
	if err == nil && s.yieldsTo(other) {
		s.rival = &RivalError{Sender: other.Sender.Addr(), Name: other.Name, Length: other.Length, HasBegun: other.HasBegun()}
		s.stop(s.rival)
	}
}

// yieldsTo reports whether this sender ends and the other goes on. Never do both end: a sender that has begun never becomes one that has not, and
// each hears the other's age later than it was said, so that neither takes the other for elder than it is. The caller has
// the lock.
func (s *session) yieldsTo(other wire.Fencing) bool {
	if hasBegun := s.rules != nil; hasBegun != other.HasBegun() {
		return other.HasBegun()
	}
	if elder := other.Age - s.age(); elder.Abs() > atOnce {
		return elder > 0
	}
	return bytes.Compare(other.Salt[:], s.salt[:]) < 0
}

// yield tells all receivers that have joined, and those that join for a while, that this sender ends because of another.
func (s *session) yield(ctx context.Context) {
	s.tell(wire.Yield, nil)
	pause.For(ctx, yieldFor)
}

// age is for how long this sender has had members, or has waited for them. The caller has the lock.
func (s *session) age() time.Duration {
	if s.rules == nil {
		return time.Since(s.started)
	}
	return time.Since(s.began)
}
