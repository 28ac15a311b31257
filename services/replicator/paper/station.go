package paper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Port is the UDP port by which tools know SOMA.
const Port = 7431

// machine is a sender or a receiver of the rules.
type machine interface {
	Step(now time.Time, event algo.Event) []algo.Action
	Deadline() time.Time
}

// station is the sockets and the clock of one transfer.
type station struct {
	place multicast.Place
	ear   *udp.Socket // hears the group
	mouth *udp.Socket // speaks, and hears what is for this machine alone
	alarm *alarm
	inbox chan *batch
	done  chan struct{}
	ended sync.WaitGroup
	log   *slog.Logger

	refused int    // datagrams that were no packets
	buffer  []byte // for one packet to be sent
}

// batch is datagrams that came at once.
type batch struct {
	bytes []byte
	ends  []int // of each in bytes
	from  []netip.AddrPort
}

var batches = sync.Pool{New: func() any { return &batch{} }}

// open takes the sockets. The one that speaks has a port, or another if a program of this machine has that one; 0 has the kernel choose.
func open(place multicast.Place, port uint16, log *slog.Logger) (*station, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &station{place: place, log: log, inbox: make(chan *batch, 64), done: make(chan struct{})}
	var err error
	if s.ear, err = multicast.Join(place); err != nil {
		return nil, err
	}
	if s.mouth, err = multicast.Open(place, port); err != nil && port != 0 {
		s.mouth, err = multicast.Open(place, 0)
	}
	if err != nil {
		return nil, errors.Join(err, s.ear.Close())
	}
	if s.alarm, err = newAlarm(); err != nil {
		return nil, errors.Join(err, s.ear.Close(), s.mouth.Close())
	}
	for _, socket := range []*udp.Socket{s.ear, s.mouth} {
		s.ended.Go(func() { s.listen(socket) })
	}
	return s, nil
}

// listen hands what a socket hears to the loop, many at once.
func (s *station) listen(socket *udp.Socket) {
	b := batches.Get().(*batch)
	_ = socket.Receive(func(datagram []byte, from netip.AddrPort) {
		b.bytes = append(b.bytes, datagram...)
		b.ends, b.from = append(b.ends, len(b.bytes)), append(b.from, from)
	}, func() {
		select {
		case s.inbox <- b:
		case <-s.done:
		}
		b = batches.Get().(*batch)
	})
}

func (s *station) close() {
	close(s.done)
	_, _ = s.ear.Close(), s.mouth.Close()
	s.alarm.close()
	s.ended.Wait()
	if s.refused > 0 {
		s.log.Warn("datagrams were refused", "group", s.place.Group, "datagrams", s.refused)
	}
}

// loop tells the machine what happens, and has perform do what it says, until that reports the
// end. Others are events that come in other ways.
func (s *station) loop(ctx context.Context, m machine, others func() <-chan algo.Event, perform func(algo.Action) (over bool, err error)) error {
	step := func(event algo.Event) (over bool, err error) {
		for _, action := range m.Step(time.Now(), event) {
			if over, err = perform(action); over || err != nil {
				return over, err
			}
		}
		return false, nil
	}
	for {
		if err := s.alarm.at(m.Deadline()); err != nil {
			return err
		}
		var over bool
		var err error
		select {
		case b := <-s.inbox:
			over, err = s.each(b, step)
		case <-s.alarm.rung:
			s.alarm.set = time.Time{}
			over, err = step(nil)
		case event := <-others():
			over, err = step(event)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if over || err != nil {
			return err
		}
	}
}

// each tells the machine of every packet of a batch.
func (s *station) each(b *batch, step func(algo.Event) (bool, error)) (over bool, err error) {
	defer func() {
		b.bytes, b.ends, b.from = b.bytes[:0], b.ends[:0], b.from[:0]
		batches.Put(b)
	}()
	begin := 0
	for i, end := range b.ends {
		packet, refused := wire.Parse(b.bytes[begin:end:end])
		begin = end
		if refused != nil {
			s.refused++
			s.log.Debug("a datagram was refused", "from", b.from[i], "error", refused)
			continue
		}
		if over, err = step(algo.Packet{From: b.from[i], Packet: packet}); over || err != nil {
			return over, err
		}
	}
	return false, nil
}

// send sends one packet.
func (s *station) send(p wire.Packet, to netip.AddrPort) error {
	s.buffer = wire.Append(s.buffer[:0], p)
	if err := s.mouth.Send(s.buffer, to); err != nil {
		return fmt.Errorf("send %v to %v: %w", p.Type, to, err)
	}
	return nil
}
