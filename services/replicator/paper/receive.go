package paper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/multicast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Receiver is a client of one transfer. Its fields are not changed while it receives.
type Receiver struct {
	// Place is the group and the network interface to it.
	Place multicast.Place
	// Rules are the parameters of the protocol. A LAN that is not told is the interface's subnet.
	// ErrorCorrection is set for files and not for streams, whatever it says.
	Rules algo.ReceiverOptions
	// Seed is what ARTPs are drawn from; clients of one LAN have different ones. Zero is any.
	Seed uint64
	// Trace is told how every competition for an ACK went; nil is nobody.
	Trace func(Competition)
	Log   *slog.Logger // nil is none
}

// Competition is one for an ACK: when the last packet of its window came, when an ACK of one's
// own was due, and when it was sent; zero if it was not, mostly because another's made it needless.
type Competition struct {
	SN               uint32
	Heard, Due, Sent time.Time
}

// Received is what became of a transfer.
type Received struct {
	Server netip.AddrPort
	Bytes  int64
	// Marked packets were missed in the multicast phase.
	Marked uint64
	ACKs   int // that were sent
	NACKs  int
	Asked  int           // REPAIR-REQUESTs
	Took   time.Duration // from the first packet to the end
}

// ReceiveFile waits for a transfer and receives it into a file, which must not be there yet. The
// file appears when it is whole and on disk.
func (r Receiver) ReceiveFile(ctx context.Context, name string) (Received, error) {
	into, err := land(name)
	if err != nil {
		return Received{}, err
	}
	r.Rules.ErrorCorrection = true
	i := &incoming{Receiver: r, store: func(s algo.Store) error { return into.store(s.Offset, s.Payload) }}
	got, err := i.receive(ctx)
	if err != nil {
		return got, errors.Join(err, into.remove())
	}
	return got, into.complete(got.Bytes)
}

// ReceiveStream waits for a stream and writes what comes of it, in order. What is lost is told
// between the writes, in packets; nil is nobody.
func (r Receiver) ReceiveStream(ctx context.Context, into io.Writer, lost func(packets uint64)) (Received, error) {
	r.Rules.ErrorCorrection = false
	i := &incoming{Receiver: r, lost: lost}
	written := int64(0)
	i.store = func(s algo.Store) error {
		n, err := into.Write(s.Payload)
		written += int64(n)
		return err
	}
	got, err := i.receive(ctx)
	got.Bytes = written
	return got, err
}

// incoming is one transfer as the client does it.
type incoming struct {
	Receiver
	*station
	rules *algo.Receiver
	store func(algo.Store) error
	lost  func(uint64)
	got   Received
	began time.Time
	rival Competition // that is going on
}

func (i *incoming) receive(ctx context.Context) (Received, error) {
	if !i.Rules.LAN.IsValid() {
		lan, err := subnet(i.Place.Interface)
		if err != nil {
			return Received{}, err
		}
		i.Rules.LAN = lan
	}
	if err := i.Rules.Validate(); err != nil {
		return Received{}, err
	}
	at, err := open(i.Place, i.Place.Group.Port(), i.Log)
	if err != nil {
		return Received{}, err
	}
	defer at.close()
	if i.Seed == 0 {
		i.Seed = rand.Uint64()
	}
	i.station, i.rules = at, algo.NewReceiver(i.Rules, rand.New(rand.NewPCG(i.Seed, i.Seed)))
	err = at.loop(ctx, i, func() <-chan algo.Event { return nil }, i.perform)
	i.got.Server = i.rules.Server()
	if !i.began.IsZero() {
		i.got.Took = time.Since(i.began)
	}
	return i.got, err
}

// Step notes when things came.
func (i *incoming) Step(now time.Time, event algo.Event) []algo.Action {
	if p, is := event.(algo.Packet); is && p.Type == wire.Data {
		if i.began.IsZero() {
			i.began = now
			i.log.Info("a transfer has begun", "server", p.From)
		}
	}
	actions := i.rules.Step(now, event)
	i.compete(now, actions)
	return actions
}

// compete notes how the competition goes, apart from an ACK that is about to be sent.
func (i *incoming) compete(now time.Time, actions []algo.Action) {
	sn, due := i.rules.Competing()
	isWon := slices.ContainsFunc(actions, func(a algo.Action) bool {
		_, is := a.(algo.Multicast)
		return is
	})
	if sn == i.rival.SN || isWon {
		return
	}
	if i.rival.SN != 0 {
		i.decide(time.Time{})
	}
	if sn != 0 {
		i.rival = Competition{SN: sn, Heard: now, Due: due}
	}
}

// decide ends a competition.
func (i *incoming) decide(sent time.Time) {
	i.rival.Sent = sent
	if i.Trace != nil {
		i.Trace(i.rival)
	}
	i.rival = Competition{}
}

// Deadline is the machine's.
func (i *incoming) Deadline() time.Time { return i.rules.Deadline() }

func (i *incoming) perform(action algo.Action) (over bool, err error) {
	switch action := action.(type) {
	case algo.Store:
		return false, i.store(action)
	case algo.Mark:
		packets := uint64(action.Last-action.First) + 1
		i.got.Marked += packets
		if i.lost != nil {
			i.lost(packets)
		}
	case algo.Multicast:
		i.acknowledge(action.Packet)
	case algo.Unicast:
		i.tell(action)
	case algo.Finished:
		i.got.Bytes = action.Length
		return true, errorOf(action.Reason)
	}
	return false, nil
}

func (i *incoming) acknowledge(p wire.Packet) {
	var sent time.Time
	if err := i.send(p, i.place.Group); err != nil {
		i.log.Debug("an ACK was not sent", "error", err) // it is as if it had been lost
	} else {
		sent = time.Now()
		i.got.ACKs++
	}
	if i.rival.SN == p.SN {
		i.decide(sent)
	}
}

func (i *incoming) tell(u algo.Unicast) {
	if u.Type == wire.NACK {
		i.got.NACKs++
	} else {
		i.got.Asked++
	}
	if err := i.send(u.Packet, u.To); err != nil {
		i.log.Debug("the server was not told", "server", u.To, "error", err) // its port may be closed by now
	}
}

// subnet is the first IPv4 subnet of an interface.
func subnet(name string) (netip.Prefix, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("interface %s: %w", name, err)
	}
	all, err := device.Addrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("addresses of %s: %w", name, err)
	}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr().Is4() {
			return prefix.Masked(), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("interface %s has no IPv4 address: give it one, or name another", name)
}
