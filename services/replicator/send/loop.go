package send

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/klauspost/reedsolomon"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	// progressEvery is how often progress is told.
	progressEvery = 100 * time.Millisecond
	// hashSpan is how long is hashed at once of what is not sent.
	hashSpan = 5 * time.Millisecond
	// farewells is how often it is said that a sender goes.
	farewells = 3
)

// loop is what the goroutine that sends has to itself.
type loop struct {
	*session
	run         udp.Run
	parity      [][]byte
	coders      map[[2]int]reedsolomon.Encoder
	announcedAt time.Time
	turned      time.Time // when it was last looked what managers have changed, and what else is due
}

// send does what the rules decide, until all is over.
func (s *session) send(ctx context.Context) error {
	l := &loop{session: s, coders: map[[2]int]reedsolomon.Encoder{}, announcedAt: time.Now()}
	l.run = udp.Run{Segment: s.datagram, To: s.config.Place.Group}
	most := udp.Longest(s.datagram)
	l.run.Bytes = make([]byte, 0, most*s.datagram)
	defer func() { s.took = time.Since(s.began) }()
	for ctx.Err() == nil {
		if err := l.keepUp(time.Now()); err != nil {
			return err
		}
		d, err := l.next(most - len(l.run.Bytes)/s.datagram)
		if err != nil {
			return err
		}
		if d.Do == algo.End {
			return l.end()
		}
		if err := l.perform(ctx, d); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// rest returns once the source is used no more.
func (s *session) rest() {
	if s.source != nil {
		s.source.close()
	}
	if s.checked != nil {
		for range s.checked { // until that is known
		}
	}
}

// next decides what is done next. While the source stands, that is anything but sending of it.
func (l *loop) next(most int) (algo.Decision, error) {
	if block, is := l.upcoming(); is {
		if err := l.source.fetch(block); err != nil {
			return algo.Decision{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if block, is := l.rules.Upcoming(); is && !l.source.has(block) {
		most = 0
	}
	now := time.Now()
	d := l.rules.Next(now, most)
	if d.Do == algo.End && l.isExpecting() {
		d = l.rules.Linger(now, now.Add(progressEvery))
	}
	return d, nil
}

func (l *loop) upcoming() (block uint32, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules.Upcoming()
}

// keepUp does what is due now and then, also where the source is slower than the network and nothing is ever waited for.
func (l *loop) keepUp(now time.Time) error {
	if now.Sub(l.turned) < turnEvery {
		return nil
	}
	l.turned = now
	l.turn(now)
	l.show(now)
	if now.Sub(l.announcedAt) <= l.announcePause() {
		return nil
	}
	l.announcedAt = now
	if err := l.flush(); err != nil { // its numbers come before
		return err
	}
	return l.announce(l.takeLate)
}

// perform does one thing.
func (l *loop) perform(ctx context.Context, d algo.Decision) error {
	switch d.Do {
	case algo.SendData:
		return l.data(d)
	case algo.SendParity:
		return l.shards(d)
	case algo.SendZero:
		l.seal(wire.Head{Kind: wire.Zero, Block: d.Block, Number: d.Number}, wire.AppendZero(nil, uint32(d.Count)))
		return l.flush()
	case algo.SendPoll:
		l.seal(wire.Head{Kind: wire.Poll, Number: d.Number}, d.Poll.Append(nil))
		return l.flush()
	case algo.SendSeal:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.letter(l.peers[d.Member], wire.Seal, wire.AppendSeal(nil, l.shape.Length, l.root))
	case algo.SendBye:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.letter(l.peers[d.Member], wire.Bye, nil)
	case algo.Wait:
		return l.wait(ctx, d.Until)
	}
	return nil
}

// seal adds a datagram to the run.
func (l *loop) seal(head wire.Head, payload []byte) {
	l.run.Bytes = l.group.Seal(l.run.Bytes, head, payload)
}

// flush sends the run.
func (l *loop) flush() error {
	if len(l.run.Bytes) == 0 {
		return nil
	}
	err := l.socket.SendRun(l.run)
	if err == nil {
		l.flushed += uint64(len(l.run.Bytes))
	}
	l.run.Bytes = l.run.Bytes[:0]
	return l.carried(err)
}

// flushIfFull sends the run if no more fits into it, or the last of it is short.
func (l *loop) flushIfFull() error {
	if len(l.run.Bytes)%l.run.Segment != 0 || len(l.run.Bytes) > cap(l.run.Bytes)-l.run.Segment {
		return l.flush()
	}
	return nil
}

func (l *loop) data(d algo.Decision) error {
	data, err := l.source.block(d.Block)
	if err != nil {
		return err
	}
	number, size := d.Number, l.shape.Size(d.Block)
	for mask := d.Mask; mask != 0; mask &= mask - 1 {
		index := bits.TrailingZeros64(mask)
		at := index * l.shape.Packet
		l.seal(wire.Head{Kind: wire.Data, Index: uint8(index), Block: d.Block, Number: number}, data[at:min(at+l.shape.Packet, size)])
		number++
		if err := l.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// shards sends parity of a block.
func (l *loop) shards(d algo.Decision) error {
	data, err := l.source.block(d.Block)
	if err != nil {
		return err
	}
	shards, err := l.encode(data, l.shape.Packets(d.Block), d.First+d.Count)
	if err != nil {
		return err
	}
	for i := range d.Count {
		head := wire.Head{Kind: wire.Parity, Index: uint8(wire.PacketsPerBlock + d.First + i), Block: d.Block, Number: d.Number + uint64(i)}
		l.seal(head, shards[d.First+i])
		if err := l.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// encode returns at least so many shards of parity.
func (l *loop) encode(data []byte, count, parity int) ([][]byte, error) {
	parity = algo.CodeOf(parity)
	coder := l.coders[[2]int{count, parity}]
	if coder == nil {
		var err error
		if coder, err = reedsolomon.New(count, parity, reedsolomon.WithMaxGoroutines(1)); err != nil {
			return nil, fmt.Errorf("code of %d and %d shards: %w", count, parity, err)
		}
		l.coders[[2]int{count, parity}] = coder
	}
	for len(l.parity) < parity {
		l.parity = append(l.parity, make([]byte, l.shape.Packet))
	}
	shards := make([][]byte, count, count+parity)
	for i := range shards {
		shards[i] = data[i*l.shape.Packet : (i+1)*l.shape.Packet]
	}
	shards = append(shards, l.parity[:parity]...)
	if err := coder.Encode(shards); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return shards[count:], nil
}

// wait sends what there is, and uses the time until something happens.
func (l *loop) wait(ctx context.Context, until time.Time) error {
	if err := l.flush(); err != nil {
		return err
	}
	now := time.Now()
	isAwaited, err := l.hash(now)
	if err != nil {
		return err
	}
	l.show(now)
	if isAwaited {
		return nil
	}
	return l.sleep(ctx, until)
}

func (l *loop) takeLate() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules.Take()
}

// hash goes on with what was sent and not hashed, or with all if that is wanted first, for a while,
// and seals the whole when nothing is left. All wait for more of it if isAwaited.
func (l *loop) hash(now time.Time) (isAwaited bool, err error) {
	l.mu.Lock()
	passed, isSealed, holds := l.rules.Passed(), l.root != object.Root{}, l.rules.Holds()
	l.mu.Unlock()
	if holds {
		passed = l.shape.Blocks()
	}
	for !isSealed {
		done, err := l.source.hashOn(passed)
		if err != nil {
			return false, err
		}
		if done {
			break
		}
		if l.source.stands() || time.Since(now) > hashSpan {
			return holds && !l.source.stands(), nil
		}
	}
	if isSealed || passed < l.shape.Blocks() {
		return false, nil
	}
	return false, l.check()
}

// check finds out whether what was hashed is still what the source has, beside all else: of a large tree that takes long, and
// members wait for polls. Then it seals the whole.
func (l *loop) check() error {
	if l.checked == nil {
		l.checked = make(chan error, 1)
		go func() {
			defer close(l.checked)
			l.checked <- l.config.Source.Changed()
			l.awake()
		}()
	}
	select {
	case err := <-l.checked:
		if err != nil {
			return err
		}
	default:
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.root = object.Root(l.source.hash.Sum())
	l.rules.Seal(l.root)
	l.shown = time.Time{} // told at once: replicas that have all are complete by it, whatever comes next
	return nil
}

func (l *loop) show(now time.Time) {
	if l.env.Progress == nil || now.Sub(l.shown) < progressEvery {
		return
	}
	l.mu.Lock()
	l.shown = now
	p := Progress{
		Sent: l.sent(), Length: l.shape.Length, Members: l.receipts(), Root: l.root,
		Window: l.rules.Window(), Counts: l.rules.Counts(), Bytes: l.flushed, Offload: l.socket.Offload(),
	}
	l.mu.Unlock()
	l.env.Progress(p)
}

// end tells everybody once more.
func (l *loop) end() error {
	if err := l.flush(); err != nil {
		return err
	}
	l.farewell("")
	return l.changed()
}

// changed returns an error if the source has changed since it was hashed, where a receiver says that something else came: what is sent
// after that, to all or to who comes late, was read again.
func (l *loop) changed() error {
	l.mu.Lock()
	isDamaged := slices.ContainsFunc(l.receipts(), func(r Receipt) bool { return r.Reason == wire.Damaged.String() })
	l.mu.Unlock()
	if !isDamaged {
		return nil
	}
	return l.config.Source.Changed()
}

// isLeft reports whether a member was given up, and is left to others. The caller has the lock.
func (s *session) isLeft(p *peer) bool {
	return s.config.Leaves && s.rules != nil && s.rules.Member(p.id).Outcome == algo.Unknown
}

// farewell tells all members that the sender goes, and why if something is wrong. Before it has begun these are all that have joined.
func (s *session) farewell(reason string) { s.tell(wire.Bye, wire.AppendBye(nil, reason)) }

// tell tells all members the last that they hear of this sender.
func (s *session) tell(kind wire.Kind, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := s.peers
	if s.rules == nil {
		members = slices.Collect(maps.Values(s.joined))
	}
	for range farewells {
		for _, p := range members {
			if !s.isLeft(p) {
				s.letter(p, kind, payload)
			}
		}
	}
}
