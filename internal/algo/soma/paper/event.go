package paper

import (
	"net/netip"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Event is something that has happened: Ready, Sent or Packet to a Sender, Packet to a
// Receiver. Nil is that time has passed.
type Event interface{ isEvent() }

// Ready tells the sender how many packets with payload there are to send so far, and
// whether there will be no more.
type Ready struct {
	Packets uint32
	Ended   bool
}

// Sent is that a Transmit has been done: the timer starts.
type Sent struct{}

// Packet is that a packet has come.
type Packet struct {
	From netip.AddrPort
	wire.Packet
}

func (Ready) isEvent()  {}
func (Sent) isEvent()   {}
func (Packet) isEvent() {}

// Action is something to do: Transmit, Answer, Joined, Dropped and Finished for a sender;
// Store, Mark, Multicast, Unicast and Finished for a receiver.
type Action interface{ isAction() }

// Transmit is to multicast a window: DATA with these numbers and LWSN the last of them. If
// IsEnd, the last has no payload. Then Sent is to be told.
type Transmit struct {
	First, Last uint32
	IsEnd       bool
	// Window and Timeout are those of the flow control. The last window may have fewer packets.
	Window  int
	Timeout time.Duration
}

// Answer is to send a REPAIR-RESPONSE. The packet with the number LWSN has no payload.
type Answer struct {
	To       netip.AddrPort
	SN, LWSN uint32
}

// Joined is that a LAN takes part from now on.
type Joined struct{ LAN netip.Prefix }

// Dropped is that a LAN was silent for too long, and no longer takes part.
type Dropped struct{ LAN netip.Prefix }

// Store is to store a payload at an offset in bytes. In a stream, where the error-correction
// phase is off, offsets say nothing: payloads come in order.
type Store struct {
	SN      uint32
	Offset  int64
	Payload []byte // of the packet that Step was told
}

// Mark is that these packets are missing: "it stores an error mark for each one" (§III-C). In a
// stream they stay so.
type Mark struct{ First, Last uint32 }

// Multicast is to send a packet to the group.
type Multicast struct{ wire.Packet }

// Unicast is to send a packet to one machine.
type Unicast struct {
	To netip.AddrPort
	wire.Packet
}

// Finished is the end, for this reason. Length is that of the file at a receiver that has
// all of it.
type Finished struct {
	Reason Reason
	Length int64
}

func (Transmit) isAction()  {}
func (Answer) isAction()    {}
func (Joined) isAction()    {}
func (Dropped) isAction()   {}
func (Store) isAction()     {}
func (Mark) isAction()      {}
func (Multicast) isAction() {}
func (Unicast) isAction()   {}
func (Finished) isAction()  {}

// Reason is why a transfer is over.
type Reason string

// The reasons. A sender that is done knows that every window was sent, and that nobody
// asks for more: the paper has no receipts.
const (
	Done          Reason = "done"
	NobodyListens Reason = "nobody_listens" // no LAN that takes part is left
	GroupTaken    Reason = "group_taken"    // another server sends to the group, and goes on
	NumbersSpent  Reason = "numbers_spent"  // a stream that was longer than numbers last
	SenderLost    Reason = "sender_lost"    // the server has been silent for too long
	BegunAnew     Reason = "begun_anew"     // the server was started again: what it sends now is another transfer
)
