package send

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	limits "golang.org/x/time/rate"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	announceFirst = 10 * time.Millisecond
	announceMost  = 200 * time.Millisecond
	// announceLate is how often receivers that come later are told.
	announceLate = 500 * time.Millisecond
	// announceShare is the share of the ceiling that they take then at most.
	announceShare = 0.05
	// ipHeaders is how many bytes of a frame are IP and UDP.
	ipHeaders = 28
	// LeastMTU is what a network interface has to carry.
	LeastMTU = wire.MinDatagram + ipHeaders
	// leastBuffer is what every receiver's socket is taken to hold.
	leastBuffer = 200 << 10
	// reportRate is how many reports a second are taken of one member, and reportBurst how many at once: it has a few to make for each
	// question, and more only where much is lost.
	reportRate, reportBurst = 4000, 1000
	// mostFlying is the most bytes that may be on their way.
	mostFlying = 2 << 20
)

// largest is the largest datagram that is tried.
func largest(config Config) (int, error) {
	device, err := net.InterfaceByName(config.Place.Interface)
	if err != nil {
		return 0, &NetworkError{fmt.Errorf("interface %s: %w", config.Place.Interface, err)}
	}
	most := min(device.MTU-ipHeaders, wire.MaxDatagram)
	if config.Datagram > 0 {
		most = min(most, config.Datagram)
	}
	if config.Datagram > 0 && config.Datagram < wire.MinDatagram {
		return 0, fmt.Errorf("datagrams of %d bytes are too small: replication needs %d", config.Datagram, wire.MinDatagram)
	}
	if most < wire.MinDatagram {
		return 0, &NetworkError{fmt.Errorf("interface %s has an MTU of %d: replication needs %d", config.Place.Interface, device.MTU, LeastMTU)}
	}
	return most, nil
}

// announce tells the group what there is, in the largest datagram and in the smallest: a
// receiver that hears only the smallest has a path that does not carry more.
func (s *session) announce(take func() uint64) error {
	a := s.announcement()
	for _, size := range s.announced() {
		whole := s.group.Announce(take(), s.salt, s.private.PublicKey().Bytes(), a, size)
		if err := s.carried(s.socket.Send(whole, s.config.Place.Group)); err != nil {
			return err
		}
	}
	return nil
}

// announced are the sizes of the datagrams that do so.
func (s *session) announced() (sizes []int) {
	sizes = []int{s.largest, wire.MinDatagram}
	if s.datagram > 0 {
		sizes[0] = s.datagram
	}
	return slices.Compact(sizes)
}

// announcePause is the time between two announcements once all has begun.
func (s *session) announcePause() time.Duration {
	bytes := 0
	for _, size := range s.announced() {
		bytes += size
	}
	return max(announceLate, time.Duration(float64(bytes)/(announceShare*s.config.Ceiling)*float64(time.Second)))
}

// announcement is what there is. The caller is the goroutine that sends, or has the lock.
func (s *session) announcement() wire.Announcement {
	info := s.config.Source.Info()
	return wire.Announcement{
		Kind: uint8(info.Kind), Permissions: uint16(info.Mode.Perm()), Length: info.Length, Time: info.Time,
		Datagram: uint16(s.datagram), Sender: s.socket.Addr(), Name: info.Name, Zeros: s.zeros,
	}
}

// takeEarly takes a number before the rules know any.
func (s *session) takeEarly() uint64 {
	s.number++
	return s.number - 1
}

// gather announces until enough have joined.
func (s *session) gather(ctx context.Context) error {
	begun, pause := time.Now(), announceFirst
	for {
		if err := s.announce(s.takeEarly); err != nil {
			return err
		}
		next := time.Now().Add(pause)
		pause = min(2*pause, announceMost)
		for time.Now().Before(next) {
			s.turn(time.Now())
			late := s.config.Wait > 0 && time.Since(begun) >= s.config.Wait
			if begins, err := s.decide(late); err != nil {
				return err
			} else if begins {
				return s.begin()
			}
			if err := s.sleep(ctx, next); err != nil {
				return err
			}
		}
	}
}

// decide reports whether the sender begins, or why it never will. It is late when nobody is waited for any more.
func (s *session) decide(late bool) (begins bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetGone()
	joined, refused := len(s.joined), s.refusals()
	areThere := s.config.Receivers > 0 && joined+len(refused) >= s.config.Receivers
	switch {
	case joined > 0:
		return late || areThere || s.config.Receivers == 0, nil
	case !late && !areThere, s.isExpecting():
		return false, nil
	case len(refused) > 0:
		return false, &RefusedError{s.receipts()}
	}
	return false, fmt.Errorf("%w within %v: do receivers listen on %v with this key, and does the switch carry multicast?", ErrNobody, s.config.Wait, s.config.Place.Group)
}

// forgetGone forgets receivers that joined and do not say so any more, before the sender has begun. The caller has the lock.
func (s *session) forgetGone() {
	for key, p := range s.joined {
		if time.Since(p.seen) > comingFor {
			delete(s.joined, key)
			s.env.Log.Warn("receiver is gone again", "receiver", p.Name, "address", p.at.String())
		}
	}
}

// sleep waits until a time, until somebody was heard, or the end.
func (s *session) sleep(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.wake:
	case <-timer.C:
	}
	return nil
}

// begin decides how the object is cut, and welcomes all that have joined.
func (s *session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rival != nil {
		return s.rival
	}
	s.datagram = s.largest
	buffer, length := uint32(1<<31), s.config.Source.Info().Length
	have, hashesFirst := length, false // somebody may have all of it
	for _, p := range s.joined {
		s.datagram = min(s.datagram, int(p.Heard))
		buffer, have = min(buffer, p.Buffer), min(have, p.Have)
		hashesFirst = hashesFirst || p.Have == length && length > 0
	}
	var err error
	if s.shape, err = algo.ShapeOf(length, s.datagram); err != nil {
		return err
	}
	first := uint32(min(have/s.shape.Block(), uint64(s.shape.Blocks())))
	if have == length {
		first = s.shape.Blocks()
	}
	s.source = newReader(s.config.Source, s.shape, s.holes, s.awake)
	s.began = time.Now()
	s.rules, err = algo.NewSender(algo.Settings{
		Shape: s.shape, Zeros: s.source.zeros, Ceiling: s.config.Ceiling, Window: window(buffer, s.datagram),
		Slow: s.config.Slow, Patience: s.config.Patience, Number: s.number, First: first, Hold: hashesFirst,
		Head: uint32((s.config.Source.Head() + s.shape.Block() - 1) / s.shape.Block()),
	}, s.began)
	if err != nil {
		return err
	}
	for _, p := range s.joined {
		s.admit(p)
	}
	if s.env.Begins == nil {
		return nil
	}
	return s.env.Begins(Beginning{Joined: len(s.joined), Refused: len(s.refusals()), Datagram: s.datagram, Sender: s.socket.Addr()})
}

// window is how many packets may be on their way to a socket that holds so many bytes: the
// kernel counts more than their payload.
func window(buffer uint32, datagram int) int {
	return max(min(int(max(buffer, leastBuffer))/3, mostFlying)/datagram, 8)
}

// admit gives a member its number. The caller has the lock.
func (s *session) admit(p *peer) {
	p.id = s.rules.Join(time.Now())
	s.peers = append(s.peers, p)
	s.welcome(p)
}

func (s *session) welcome(p *peer) {
	s.letter(p, wire.Welcome, wire.AppendWelcome(nil, uint16(s.datagram)))
}

// letter sends something to one member. The caller has the lock.
func (s *session) letter(p *peer, kind wire.Kind, payload []byte) {
	if p.isOut {
		return
	}
	_ = s.socket.Send(p.down.Seal(nil, wire.Head{Kind: kind, Block: uint32(p.id), Number: p.number}, payload), p.at)
	p.number++
}

// take takes what comes from members.
func (s *session) take(datagram []byte, from netip.AddrPort) {
	head, err := wire.ParseHead(datagram)
	if err != nil || head.Session != s.salt.Session() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch head.Kind {
	case wire.Join:
		s.join(head, datagram, from)
	case wire.Report:
		s.report(head, datagram, from)
	case wire.Fence:
		s.fence(head, datagram)
	default:
		return
	}
	s.awake()
}

// awake has the goroutine that sends look at once what there is to do.
func (s *session) awake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// join takes a member in. A member that joins again has not heard that it is welcome.
func (s *session) join(head wire.Head, datagram []byte, from netip.AddrPort) {
	j, public, secret, err := s.openJoin(head, datagram)
	if err != nil {
		return
	}
	by, mutual, ok := s.identify(j, public, from)
	if !ok || s.repeats([wire.PublicSize]byte(public), head.Number) {
		return
	}
	key := [wire.PublicSize]byte(public)
	known := s.joined[key]
	if j.Refused != wire.NoReason {
		if known != nil {
			by = known.who
		}
		s.refuse(j, by, from)
		return
	}
	if known != nil {
		known.seen = time.Now()
		if s.rival != nil {
			s.letter(known, wire.Yield, nil)
		} else if s.rules != nil && int(known.id) < len(s.peers) && s.peers[known.id] == known {
			s.welcome(known)
		}
		return
	}
	if j.Have == wire.HaveUnknown {
		s.comes(j.Name)
		return
	}
	delete(s.coming, j.Name)
	if at, is := s.ousted[key]; is && by.address.IsValid() {
		if time.Since(at) < overtaken {
			return
		}
		by.port = from.Port()
		s.warnOfTwins(by)
	}
	if !s.hasRoom(by) {
		return
	}
	pair, err := secret.Pair(s.private, public, mutual)
	if err != nil {
		return
	}
	p := &peer{Joining: j, who: by, secret: secret, at: from, up: pair.Up(), down: pair.Down(), seen: time.Now(), may: limits.NewLimiter(reportRate, reportBurst)}
	if s.rules != nil && int(j.Heard) < s.datagram {
		s.env.Log.Warn("a receiver came too late for its path to count", "receiver", j.Name, "carries", j.Heard, "datagrams", s.datagram)
		s.welcome(p) // by which it knows
		return
	}
	s.replace(p)
	delete(s.refused, p.who)
	s.joined[key] = p
	switch {
	case s.rival != nil:
		s.letter(p, wire.Yield, nil)
		return
	case s.rules != nil:
		s.admit(p)
	}
	s.env.Log.Info("receiver joined", "receiver", j.Name, "address", from.String(), "lan", j.LAN)
}

// mostKeys is for how many receivers' keys it is noted what was heard: a receiver takes a few each time it begins. Whoever has the
// group's key can make any number more, and keeps nobody out with them.
const mostKeys = 16 * maxMembers

// repeats notes the number of a JOIN, and reports whether that one or a later one of its key was heard before: anybody can send
// again what was recorded. So a key is remembered for longer than the receiver that had it, which may have begun anew with another.
func (s *session) repeats(key [wire.PublicSize]byte, number uint64) bool {
	next, isKnown := s.joins[key]
	if isKnown && number < next {
		return true
	}
	if isKnown || len(s.joins) < mostKeys {
		s.joins[key] = number + 1
	}
	return false
}

// comingFor is how long a receiver counts as coming after it has said so.
const comingFor = 3 * time.Second

// comes notes that a receiver still reads what it has. The caller has the lock.
func (s *session) comes(name string) {
	if _, known := s.coming[name]; known || len(s.coming) < maxMembers {
		s.coming[name] = time.Now()
	}
}

// isExpecting reports whether a receiver may still come. The caller has the lock.
func (s *session) isExpecting() bool {
	return s.isComing() || s.config.Stay != nil && time.Now().Before(s.config.Stay())
}

// isComing reports whether a receiver still reads what it has. The caller has the lock.
func (s *session) isComing() bool {
	for _, heard := range s.coming {
		if time.Since(heard) < comingFor {
			return true
		}
	}
	return false
}

// replace gives up what a receiver was before it began anew.
func (s *session) replace(p *peer) {
	for key, old := range s.joined {
		if old.who != p.who || old.isOld {
			continue
		}
		old.isOld, old.since = true, time.Now()
		if s.rules == nil {
			delete(s.joined, key)
			if len(s.ousted) < mostKeys {
				s.ousted[key] = old.since
			}
		} else if s.rules.Member(old.id).Outcome != algo.Complete {
			s.rules.Leave(old.id)
		}
	}
}

const (
	// maxMembers is how many one sender serves.
	maxMembers = 1024
	// mostBegun is how many join in one session, with what they were before they began anew, and mostOwn is how many of these are one
	// receiver, of which mostOwnLately of late: it begins anew where what it had was of something else, when it is started again, and when
	// its address changes, which may go on for as long as the session does.
	mostBegun     = 8 * maxMembers
	mostOwn       = maxMembers
	mostOwnLately = 32
	lately        = 10 * time.Minute
	// mostTurnedAway is of how many receivers the log says that they are not answered.
	mostTurnedAway = 64
)

// hasRoom reports whether a receiver may join, in place of what it was before. The caller has the lock.
func (s *session) hasRoom(by who) bool {
	others, own, ownLately := 0, 0, 0
	for _, p := range s.joined {
		switch {
		case p.who == by:
			own++
			if !p.isOld || time.Since(p.since) < lately {
				ownLately++
			}
		case !p.isOld && !p.isOut:
			others++
		}
	}
	var why string
	switch {
	case others >= maxMembers, len(s.joined) >= mostBegun:
		why = "too many have joined"
	case own >= mostOwn, ownLately >= mostOwnLately:
		why = "it began anew too often"
	default:
		return true
	}
	if !slices.Contains(s.turnedAway, by) && len(s.turnedAway) < mostTurnedAway { // it asks again and again
		s.turnedAway = append(s.turnedAway, by)
		s.env.Log.Warn("a receiver joins and is not answered", "receiver", by.called(), "reason", why)
	}
	return false
}

// report hands a member's report to the rules, unless there are more than it can have to tell.
func (s *session) report(head wire.Head, datagram []byte, from netip.AddrPort) {
	if s.rules == nil || head.Block >= uint32(len(s.peers)) {
		return
	}
	p := s.peers[head.Block]
	payload, err := p.up.Open(nil, head, datagram)
	if err != nil || head.Number < p.heard || p.isOut {
		return
	}
	p.heard = head.Number + 1
	if !p.may.AllowN(s.socket.Arrived(), 1) {
		return
	}
	p.speaks(from)
	s.lives(p)
	reported, err := wire.ParseReport(payload)
	if err == nil {
		err = s.rules.Report(p.id, reported, s.socket.Arrived())
	}
	if err != nil {
		s.env.Log.Warn("receiver reports nonsense", "receiver", p.Name, "error", err)
	}
}
