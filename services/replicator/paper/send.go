package paper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Sender is a server of one transfer. Its fields are not changed while it sends.
type Sender struct {
	// Place is the group and the network interface to it. Its TTL has to be greater than the
	// number of routers on the way.
	Place multicast.Place
	// Payload is how many bytes of the file a packet has. Zero is the paper's 512.
	Payload int
	// Rules are the parameters of the protocol. A LAN of the sender's own that is not told is the interface's subnet.
	// ErrorCorrection is set for files and not for streams, whatever it says.
	Rules algo.SenderOptions
	// Trace is told of every window before it is sent; nil is nobody.
	Trace func(Window)
	Log   *slog.Logger // nil is none
}

// Window is one window of the multicast phase.
type Window struct {
	At time.Time
	algo.Transmit
}

// Sent is what became of a transfer. The paper has no receipts: that nobody asks any more is all
// that a server knows.
type Sent struct {
	Packets uint32 // in the multicast phase
	Windows int
	Repairs int // answers to requests
	// Joined took part though they were not named; Dropped were silent for too long, and are so still.
	Joined, Dropped []netip.Prefix
}

// join notes a LAN that takes part from now on, or does so again.
func (s *Sent) join(lan netip.Prefix) {
	before := len(s.Dropped)
	s.Dropped = slices.DeleteFunc(s.Dropped, func(one netip.Prefix) bool { return one == lan })
	if len(s.Dropped) == before {
		s.Joined = append(s.Joined, lan)
	}
}

// The reasons for which a transfer ends before its time.
var (
	ErrNobodyListens = errors.New("nobody listens in any LAN: see that receivers run, that the interface is the one to them, and that switches and routers pass multicast on")
	ErrGroupTaken    = errors.New("another server sends to this group: choose another group")
	ErrNumbersSpent  = errors.New("the stream has more packets than there are numbers: begin another")
	ErrSenderLost    = errors.New("the server is silent for too long")
	ErrBegunAnew     = errors.New("the server was started again and sends another transfer: receive again")
)

// SendFile sends a file. It returns when all windows are sent and nobody has asked for a repair
// for some time.
func (s Sender) SendFile(ctx context.Context, from *os.File) (Sent, error) {
	info, err := from.Stat()
	if err != nil {
		return Sent{}, fmt.Errorf("send %s: %w", from.Name(), err)
	}
	f := file{from: from, size: info.Size(), each: s.payload()}
	if f.events, err = f.ready(); err != nil {
		return Sent{}, fmt.Errorf("send %s: %w", from.Name(), err)
	}
	s.Rules.ErrorCorrection = true
	return s.send(ctx, f)
}

// SendStream sends what is read, as it comes, without error correction. When it is cancelled, a
// Read that is under way goes on until it returns.
func (s Sender) SendStream(ctx context.Context, from io.Reader) (Sent, error) {
	s.Rules.ErrorCorrection = false
	pieces := newStream()
	defer close(pieces.stopped)
	go pieces.read(from, s.payload())
	sent, err := s.send(ctx, pieces)
	if err == nil {
		err = pieces.broken
	}
	return sent, err
}

func (s Sender) payload() int {
	if s.Payload == 0 {
		return wire.PayloadSize
	}
	return s.Payload
}

// LargestPayload is how many bytes of a file a packet can have that leaves by a network interface: none is sent in fragments,
// and none is longer than what receivers take whole.
func LargestPayload(device string) (int, error) {
	named, err := net.InterfaceByName(device)
	if err != nil {
		return 0, fmt.Errorf("interface %s: %w", device, err)
	}
	const headers = 20 + 8 + wire.HeaderSize // IPv4's and UDP's before ours
	return min(named.MTU-headers, udp.MaxDatagram-wire.HeaderSize), nil
}

// check reports all that is wrong.
func (s Sender) check() error {
	largest, err := LargestPayload(s.Place.Interface)
	if n := s.payload(); err == nil && (n < 1 || n > largest) {
		err = fmt.Errorf("a payload of %d bytes: it can have 1 to %d on %s", n, largest, s.Place.Interface)
	}
	return errors.Join(s.Rules.Validate(), err)
}

// outgoing is one transfer as the server does it.
type outgoing struct {
	*station
	Sender
	rules  *algo.Sender
	from   source
	sent   Sent
	window []byte // the packets of a window, one after the other
	isMute bool   // the last ones could not be sent
}

func (s Sender) send(ctx context.Context, from source) (Sent, error) {
	if err := s.check(); err != nil {
		return Sent{}, err
	}
	if !s.Rules.LAN.IsValid() {
		own, err := subnet(s.Place.Interface)
		if err != nil {
			return Sent{}, err
		}
		s.Rules.LAN = own
	}
	// With a port of the kernel's choice, one that is started again is another server to its clients. With the one that they know they
	// would put parts of two files together.
	at, err := open(s.Place, 0, s.Log)
	if err != nil {
		return Sent{}, err
	}
	defer at.close()
	s.Rules.Address = at.mouth.Addr()
	o := &outgoing{station: at, Sender: s, rules: algo.NewSender(s.Rules), from: from}
	err = at.loop(ctx, o, o.others, o.perform)
	return o.sent, err
}

// Step tells the machine how much there is of a stream, and not what.
func (o *outgoing) Step(now time.Time, event algo.Event) []algo.Action {
	if p, is := event.(piece); is {
		event = o.from.note(p)
	}
	return o.rules.Step(now, event)
}

// Deadline is the machine's.
func (o *outgoing) Deadline() time.Time { return o.rules.Deadline() }

func (o *outgoing) others() <-chan algo.Event { return o.from.more() }

func (o *outgoing) perform(action algo.Action) (over bool, err error) {
	switch action := action.(type) {
	case algo.Transmit:
		return o.transmit(action)
	case algo.Answer:
		return false, o.answer(action)
	case algo.Joined:
		o.sent.join(action.LAN)
		o.log.Info("a LAN takes part", "lan", action.LAN)
	case algo.Dropped:
		o.sent.Dropped = append(o.sent.Dropped, action.LAN)
		o.log.Warn("a LAN no longer takes part, for it is silent", "lan", action.LAN)
	case algo.Finished:
		return true, errorOf(action.Reason)
	}
	return false, nil
}

func errorOf(reason algo.Reason) error {
	switch reason {
	case algo.NobodyListens:
		return ErrNobodyListens
	case algo.GroupTaken:
		return ErrGroupTaken
	case algo.NumbersSpent:
		return ErrNumbersSpent
	case algo.SenderLost:
		return ErrSenderLost
	case algo.BegunAnew:
		return ErrBegunAnew
	default:
		return nil
	}
}

// transmit multicasts a window, and does what follows from that at once.
func (o *outgoing) transmit(w algo.Transmit) (over bool, err error) {
	if o.Trace != nil {
		o.Trace(Window{At: time.Now(), Transmit: w})
	}
	if err := o.write(w); err != nil {
		return false, err
	}
	o.from.sent(w.Last)
	o.sent.Packets, o.sent.Windows = w.Last, o.sent.Windows+1
	for _, action := range o.rules.Step(time.Now(), algo.Sent{}) {
		if over, err = o.perform(action); over || err != nil {
			return over, err
		}
	}
	return false, nil
}

// write sends the packets of a window, those of one size with as few system calls as can be.
func (o *outgoing) write(w algo.Transmit) (err error) {
	run := udp.Run{To: o.place.Group, Apart: true}
	o.window = o.window[:0]
	begin := 0
	for sn := w.First; ; sn++ {
		at := len(o.window)
		if o.window, err = o.packet(o.window, wire.Data, sn, w.Last); err != nil {
			return err
		}
		size := len(o.window) - at
		if run.Segment != 0 && (size != run.Segment || (at-begin)/run.Segment >= udp.Longest(run.Segment)) {
			run.Bytes, begin = o.window[begin:at], at
			if err := o.sendRun(run); err != nil {
				return err
			}
		}
		run.Segment = size
		if sn == w.Last {
			run.Bytes = o.window[begin:]
			return o.sendRun(run)
		}
	}
}

// sendRun sends packets. What cannot leave, as while the interface is down, is lost as it would be on the way: clients ask for it later,
// and if it stays so, no LAN is heard. What is too large never leaves.
func (o *outgoing) sendRun(run udp.Run) error {
	err := o.mouth.SendRun(run)
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("send to %v: %w", run.To, err)
	}
	if err != nil && !o.isMute {
		o.log.Warn("packets cannot be sent, and count as lost", "to", run.To, "error", err)
	}
	o.isMute = err != nil
	return nil
}

// packet appends the packet with a number. Its payload is read to its place, behind the header.
func (o *outgoing) packet(b []byte, kind wire.Type, sn, lwsn uint32) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, wire.HeaderSize)...)
	b, err := o.from.payload(b, sn)
	if err != nil {
		return b, err
	}
	wire.Append(b[:at], wire.Packet{SN: sn, Type: kind, LWSN: lwsn, Payload: b[at+wire.HeaderSize:]})
	return b, nil
}

func (o *outgoing) answer(a algo.Answer) (err error) {
	o.buffer, err = o.packet(o.buffer[:0], wire.RepairResponse, a.SN, a.LWSN)
	if err != nil {
		return err
	}
	o.sent.Repairs++
	if err := o.mouth.Send(o.buffer, a.To); err != nil {
		o.log.Debug("a repair was not sent", "to", a.To, "error", err) // it will be asked for again
	}
	return nil
}
