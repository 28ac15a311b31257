package fast_test

import (
	"container/heap"
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// network is one sender and its members in virtual time: every member has a link from a switch
// with a rate, a queue and faults, behind one from the sender.
type network struct {
	*world
	t       testing.TB
	begun   time.Time
	shape   fast.Shape
	sender  *fast.Sender
	uplink  *cable
	members []*node
	wake    time.Time // of the sender

	reports, acks, wants          int
	sentPackets, carried, repairs int // carried arrived at the switch
	lost                          int // packets that a member that was there did not get
	root                          [32]byte
	tamper                        func(*wire.Reported) // of member 0
	forge                         forge
	lies                          int                      // reports that were refused
	isDeaf                        bool                     // no report gets to the sender
	lingers                       bool                     // the sender does, at its end
	source                        func(passed uint32) bool // whether the next block of the source can be read; nil if it always can
}

// forge says what a member answers to a poll that has the number before next, whatever came to it.
type forge func(member int, poll wire.Polled, next uint64) wire.Reported

// world is time and chance. Two networks may share one, and its cables.
type world struct {
	random *rand.Rand
	now    time.Time
	events events
	order  int
}

func newWorld(seed uint64) *world {
	return &world{random: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0)}
}

type node struct {
	id       fast.ID
	r        *fast.Receiver
	cable    *cable
	isDead   bool
	isDone   bool // the sender knows
	finished time.Time
	have     map[uint32]bool
	settles  time.Duration // how long it takes until all is on disk
	disk     float64       // bytes per second that it takes of what comes; zero is without end
	free     time.Time     // when it has taken what has come
	wake     time.Time
}

// socketRoom is how many bytes may wait for a member that takes them more slowly than they come.
const socketRoom = 2 << 20

// takes does something with a packet once a member has taken what came before it, unless there is no room for it.
func (m *node) takes(n *network, size int, do func()) {
	if m.disk == 0 {
		do()
		return
	}
	if m.free.Before(n.now) {
		m.free = n.now
	}
	if m.free.Sub(n.now).Seconds()*m.disk > socketRoom {
		return
	}
	m.free = m.free.Add(time.Duration(float64(size) / m.disk * float64(time.Second)))
	n.at(m.free, do)
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

const datagram = 1472

type setting struct {
	length  uint64
	members int
	uplink  cable
	cable   func(member int) cable
	seed    uint64
	beside  *network                // whose world and cables are shared
	isSame  bool                    // it is sent from the same machine: its uplink is shared, too
	have    func(member int) uint32 // blocks that it says that it has
	// isUnsealed leaves it to the test to tell the root.
	isUnsealed bool
	forge      forge // what all members answer, if it is set
	change     func(*fast.Settings)
}

func begin(t testing.TB, with setting) *network {
	t.Helper()
	t.Logf("seed %d", with.seed)
	n := &network{t: t, root: [32]byte{1, 2, 3}, forge: with.forge}
	if n.world = newWorld(with.seed); with.beside != nil {
		n.world = with.beside.world
	}
	n.begun = n.now
	var err error
	if n.shape, err = fast.ShapeOf(with.length, datagram); err != nil {
		t.Fatal(err)
	}
	set := fast.Settings{Shape: n.shape, Ceiling: 1.25e9, Window: 1450, Patience: 10 * time.Second}
	if with.change != nil {
		with.change(&set)
	}
	if n.sender, err = fast.NewSender(set, n.now); err != nil {
		t.Fatal(err)
	}
	up := with.uplink
	if n.uplink = &up; with.isSame {
		n.uplink = with.beside.uplink
	}
	for i := range with.members {
		down := with.cable(i)
		if with.beside != nil {
			n.join(with.beside.members[i].cable)
			continue
		}
		m := n.join(&down)
		if with.have != nil {
			m.has(n, with.have(i))
		}
	}
	if !with.isUnsealed {
		n.sender.Seal(n.root)
	}
	n.act()
	return n
}

func (n *network) join(down *cable) *node {
	m := &node{id: n.sender.Join(n.now), cable: down, have: map[uint32]bool{}}
	m.r = fast.NewReceiver(n.shape, 0, 1024)
	m.r.Welcome(m.id)
	n.members = append(n.members, m)
	return m
}

// has has a member have the first blocks already.
func (m *node) has(n *network, blocks uint32) {
	m.r = fast.NewReceiver(n.shape, blocks, 1024)
	m.r.Welcome(m.id)
	for block := range blocks {
		m.have[block] = true
	}
	if blocks == n.shape.Blocks() {
		m.r.Enter(wire.Landed, wire.NoReason, [32]byte{}, n.now)
	}
}

func (n *world) at(when time.Time, do func()) {
	n.order++
	heap.Push(&n.events, event{when, n.order, do})
}

// act has the sender do all that it wants to do now.
func (n *network) act() {
	for range 100000 {
		most := 44
		if block, is := n.sender.Upcoming(); is && n.source != nil && !n.source(block) {
			most = 0
		}
		d := n.sender.Next(n.now, most)
		if d.Do == fast.End && n.lingers {
			d = n.sender.Linger(n.now, n.now.Add(100*time.Millisecond))
		}
		switch d.Do {
		case fast.Wait:
			n.wake = d.Until
			n.at(d.Until, func() {
				if !n.now.Before(n.wake) {
					n.act()
				}
			})
			return
		case fast.End:
			return
		}
		n.perform(d)
	}
	n.t.Fatal("the sender never waits")
}

func (n *network) perform(d fast.Decision) {
	switch d.Do {
	case fast.SendData:
		number := d.Number
		for mask := d.Mask; mask != 0; mask &= mask - 1 {
			n.multicast(datagram+28, d.Repair, number, d.Block, bits.TrailingZeros64(mask))
			number++
		}
	case fast.SendParity:
		for i := range d.Count {
			n.multicast(datagram+28, d.Repair, d.Number+uint64(i), d.Block, wire.PacketsPerBlock+d.First+i)
		}
	case fast.SendZero:
		n.toAll(70, func(m *node, _ time.Time) {
			if m.r.Came(d.Number) {
				for block := d.Block; block < d.Block+uint32(d.Count); block++ {
					if !m.r.Has(block) {
						m.whole(n, block)
					}
				}
			}
		})
	case fast.SendPoll:
		if n.forge != nil {
			n.forged(d)
			return
		}
		n.toAll(116, func(m *node, came time.Time) {
			if m.r.Came(d.Number) {
				m.r.Polled(d.Poll, d.Number, came)
			}
		})
	case fast.SendSeal:
		m := n.members[d.Member]
		n.carry(n.uplink, 100, func() {
			n.carry(m.cable, 100, func() {
				if !m.isDead && m.r.State() == wire.Landed {
					m.settle(n)
				}
			})
		})
	case fast.SendBye:
		m := n.members[d.Member]
		n.carry(n.uplink, 60, func() {
			n.carry(m.cable, 60, func() { m.isDone = true })
		})
	}
}

// forged has all members answer a poll with what is forged, a millisecond later.
func (n *network) forged(d fast.Decision) {
	for i, m := range n.members {
		report := n.forge(i, d.Poll, d.Number+1)
		n.at(n.now.Add(time.Millisecond), func() {
			if errors.Is(n.sender.Report(m.id, report, n.now), fast.ErrLie) {
				n.lies++
			}
			n.act()
		})
	}
}

func (n *network) toAll(size int, do func(m *node, came time.Time)) {
	n.carry(n.uplink, size, func() {
		for _, m := range n.members {
			n.carry(m.cable, size, func() {
				came := n.now
				m.takes(n, size, func() {
					if !m.isDead {
						do(m, came)
						m.look(n)
					}
				})
			})
		}
	})
}

func (n *network) multicast(size int, isRepair bool, number uint64, block uint32, index int) {
	n.sentPackets++
	if isRepair {
		n.repairs++
	}
	n.carry(n.uplink, size, func() {
		n.carried++
		for _, m := range n.members {
			if m.isDead {
				continue
			}
			arrives := n.carry(m.cable, size, func() {
				m.takes(n, size, func() { m.packet(n, number, block, index) })
			})
			if !arrives && !m.cable.cut {
				n.lost++
			}
		}
	})
}

// packet is that one comes to a member.
func (m *node) packet(n *network, number uint64, block uint32, index int) {
	if m.isDead || !m.r.Came(number) {
		return
	}
	if !m.r.Wants(block, index) {
		m.r.Refused(block)
		return
	}
	if m.r.Took(block, index) {
		m.whole(n, block)
	}
	m.look(n)
}

// whole is a block's arrival: the oracle of what a member has.
func (m *node) whole(n *network, block uint32) {
	if m.have[block] {
		n.t.Errorf("member %d has block %d twice", m.id, block)
	}
	m.have[block] = true
	m.r.Whole(block)
	if m.r.Frontier() == n.shape.Blocks() && m.r.State() == wire.Receiving {
		m.finished = n.now
		m.r.Enter(wire.Landed, wire.NoReason, [32]byte{}, n.now)
	}
}

// settle has all that landed be on disk, in time.
func (m *node) settle(n *network) {
	done := func() {
		m.r.Enter(wire.Complete, wire.NoReason, n.root, n.now)
		m.look(n)
	}
	if m.settles == 0 {
		done()
		return
	}
	m.r.Enter(wire.Settling, wire.NoReason, [32]byte{}, n.now)
	m.look(n)
	n.at(n.now.Add(m.settles), done)
}

// landIfEmpty has a member of an empty object have all of it.
func (m *node) landIfEmpty(n *network) {
	if n.shape.Blocks() == 0 {
		m.r.Enter(wire.Landed, wire.NoReason, [32]byte{}, n.now)
		m.look(n)
	}
}

// look has a member report if it is time to.
func (m *node) look(n *network) {
	if m.isDead || m.isDone {
		return
	}
	if report, ok := m.r.Report(n.now); ok {
		n.reports++
		if len(report.Wants) == 0 {
			n.acks++
		}
		for _, w := range report.Wants {
			n.wants += int(w.Need) + int(w.Run)*wire.PacketsPerBlock
		}
		if m.id == 0 && n.tamper != nil {
			n.tamper(&report)
		}
		parsed, err := wire.ParseReport(report.Append(nil))
		if err != nil {
			n.t.Fatal(err)
		}
		back := &cable{delay: m.cable.delay + n.uplink.delay, loss: m.cable.loss, dup: m.cable.dup, cut: m.cable.cut || n.isDeaf}
		n.carry(back, 150, func() {
			if err := n.sender.Report(m.id, parsed, n.now); err != nil && n.tamper == nil {
				n.t.Error(err)
			}
			n.act()
		})
	}
	due := m.r.Due()
	if due.IsZero() || due.Equal(m.wake) && due.After(n.now) {
		return
	}
	m.wake = due
	n.at(due, func() { m.look(n) })
}

// run lets time pass until all is over, or for so long.
func (n *world) run(most time.Duration) {
	end := n.now.Add(most)
	for len(n.events) > 0 {
		if n.events[0].at.After(end) {
			n.now = end
			return
		}
		e := heap.Pop(&n.events).(event)
		if e.at.After(n.now) {
			n.now = e.at
		}
		e.do()
	}
}

func (n *network) wantComplete(ids ...fast.ID) {
	n.t.Helper()
	if len(ids) == 0 {
		for _, m := range n.members {
			ids = append(ids, m.id)
		}
	}
	for _, id := range ids {
		m := n.members[id]
		if got := n.sender.Member(id); got.Outcome != fast.Complete || len(m.have) != int(n.shape.Blocks()) {
			n.t.Errorf("member %d has %d of %d blocks, and the sender says %v, %+v", id, len(m.have), n.shape.Blocks(), got.Outcome, got)
		}
	}
}

func (n *network) last() time.Duration {
	var last time.Duration
	for _, m := range n.members {
		last = max(last, m.finished.Sub(n.begun))
	}
	return last
}
