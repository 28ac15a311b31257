package link

import (
	"net/netip"
	"time"
)

const (
	ipv4Header = 20 // bytes that corruption spares, so that the packet still arrives
	ipv6Header = 40
)

// Framing says how many bytes in front of the IP packet a frame carries.
type Framing int

// The two kinds of ends.
const (
	BarePackets    Framing = 0  // TUN
	EthernetFrames Framing = 14 // TAP
)

// Shaper is one direction of a link. It has no clock: now is the time since
// the link was made and never goes back.
type Shaper struct {
	shape   Shape
	framing Framing
	chance  chance

	queue      fifo // in front of the clock; the first is being sent
	queueBytes Bytes
	finish     time.Duration // when the first packet's last bit is on the wire
	wire       fifo          // the delay line, by due time
	held       fifo          // reordered packets, by due time

	spare [][]byte
	left  []byte // what Leave returned last

	count Count
	level level
}

// NewShaper makes one direction of a link.
func NewShaper(shape Shape, framing Framing, seed uint64) *Shaper {
	return &Shaper{shape: shape, framing: framing, chance: newChance(seed)}
}

// Enter offers a frame that arrives at now. The frame is copied.
func (s *Shaper) Enter(now time.Duration, frame []byte) {
	s.advance(now)
	size := s.size(frame)
	s.count.Offered.add(size)
	switch {
	case s.shape.Cut:
		s.count.CutOff.add(size)
	case s.shape.BlackHole > 0 && size > s.shape.BlackHole, s.shape.NoUDP.IsValid() && udpSource(frame[s.framing:]) == s.shape.NoUDP:
		s.count.BlackHoled.add(size)
	case !s.shape.Queue.admits(s.queue.len(), s.queueBytes, size):
		s.count.Overflowed.add(size)
	default:
		s.wait(now, frame, size)
	}
}

func (s *Shaper) wait(now time.Duration, frame []byte, size Bytes) {
	if s.queue.len() == 0 {
		s.finish = now + s.shape.Rate.Time(size)
	}
	s.level.until(now, s.queue.len(), s.queueBytes)
	s.queue.push(packet{frame: append(s.buffer(), frame...)})
	s.queueBytes += size
	s.count.Longest = max(s.count.Longest, s.queue.len())
	s.count.Largest = max(s.count.Largest, s.queueBytes)
	s.advance(now)
}

// Leave returns a frame that has arrived at the far end by now, with the time
// at which it was due, or nil. The frame is valid until the next call of Leave.
func (s *Shaper) Leave(now time.Duration) (frame []byte, due time.Duration) {
	s.recycle(s.left)
	s.left = nil
	s.advance(now)
	line := s.next()
	if line == nil || line.front().due > now {
		return nil, 0
	}
	p := line.pop()
	s.left = p.frame
	s.count.Delivered.add(s.size(p.frame))
	return p.frame, p.due
}

// Deadline is the next time at which Leave may have something to return.
func (s *Shaper) Deadline() (at time.Duration, ok bool) {
	if line := s.next(); line != nil {
		at, ok = line.front().due, true
	}
	if s.queue.len() > 0 {
		if first := s.finish + s.shape.Delay; !ok || first < at {
			at, ok = first, true
		}
	}
	return at, ok
}

// Shape is the present shape.
func (s *Shaper) Shape() Shape { return s.shape }

// Reshape changes the link at now. The packet on the line goes on at the new
// rate; a changed delay holds for packets that have yet to leave the queue.
func (s *Shaper) Reshape(now time.Duration, shape Shape) {
	s.advance(now)
	if s.queue.len() > 0 && shape.Rate != s.shape.Rate {
		s.finish = now + rescale(s.finish-now, s.shape.Rate, shape.Rate)
	}
	s.shape = shape
	if shape.Cut {
		s.drain(now)
	}
	s.advance(now)
}

// rescale returns how long the rest of a packet takes that would have taken left at the rate before.
func rescale(left time.Duration, before, after Rate) time.Duration {
	if after <= 0 {
		return 0
	}
	return time.Duration(float64(left) * float64(before) / float64(after))
}

func (s *Shaper) drain(now time.Duration) {
	s.level.until(now, s.queue.len(), s.queueBytes)
	s.queueBytes = 0
	for _, line := range []*fifo{&s.queue, &s.wire, &s.held} {
		for line.len() > 0 {
			p := line.pop()
			s.count.CutOff.add(s.size(p.frame))
			s.recycle(p.frame)
		}
	}
}

// advance puts on the wire what has been serialized by now.
func (s *Shaper) advance(now time.Duration) {
	for s.queue.len() > 0 && s.finish <= now {
		s.level.until(s.finish, s.queue.len(), s.queueBytes)
		p := s.queue.pop()
		size := s.size(p.frame)
		s.queueBytes -= size
		s.count.Carried.add(size)
		s.launch(p, s.finish)
		if s.queue.len() > 0 {
			s.finish += s.shape.Rate.Time(s.size(s.queue.front().frame))
		}
	}
}

// launch sends p down the wire at the time its last bit left the queue.
func (s *Shaper) launch(p packet, at time.Duration) {
	size := s.size(p.frame)
	if s.chance.loses(&s.shape) {
		s.count.Lost.add(size)
		s.recycle(p.frame)
		return
	}
	if happens(s.chance.corrupt, s.shape.Corrupt) {
		s.count.Corrupted.add(size)
		s.chance.damage(p.frame, int(s.framing)+ipv4Header)
	}
	p.due = at + s.shape.Delay
	s.travel(p)
	if happens(s.chance.duplicate, s.shape.Duplicate) {
		s.count.Duplicated.add(size)
		s.travel(packet{frame: append(s.buffer(), p.frame...), due: p.due})
	}
}

func (s *Shaper) travel(p packet) {
	line := &s.wire
	if happens(s.chance.reorder, s.shape.Reorder.Probability) {
		s.count.Reordered.add(s.size(p.frame))
		p.due += s.shape.Reorder.By
		line = &s.held
	}
	if line.len() > 0 {
		p.due = max(p.due, line.back().due)
	}
	line.push(p)
}

// next is the line whose first packet is due first, or nil.
func (s *Shaper) next() *fifo {
	switch {
	case s.wire.len() == 0 && s.held.len() == 0:
		return nil
	case s.wire.len() == 0:
		return &s.held
	case s.held.len() == 0 || s.wire.front().due <= s.held.front().due:
		return &s.wire
	default:
		return &s.held
	}
}

func (s *Shaper) size(frame []byte) Bytes { return Bytes(len(frame) - int(s.framing)) }

// udpSource is where a packet of UDP comes from; the zero Addr of any other.
func udpSource(packet []byte) (from netip.Addr) {
	const udp = 17
	switch {
	case len(packet) >= ipv4Header && packet[0]>>4 == 4 && packet[9] == udp:
		from, _ = netip.AddrFromSlice(packet[12:16])
	case len(packet) >= ipv6Header && packet[0]>>4 == 6 && packet[6] == udp:
		from, _ = netip.AddrFromSlice(packet[8:24])
	}
	return from
}

func (s *Shaper) buffer() []byte {
	if len(s.spare) == 0 {
		return make([]byte, 0, 2048)
	}
	last := len(s.spare) - 1
	b := s.spare[last]
	s.spare = s.spare[:last]
	return b[:0]
}

func (s *Shaper) recycle(frame []byte) {
	if frame != nil {
		s.spare = append(s.spare, frame)
	}
}
