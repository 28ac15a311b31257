package link

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/algo/parallel"
)

// lookInterval is how often the kernel is asked how a link is doing.
const lookInterval = 100 * time.Millisecond

// tune gives the link as many stripes as serve it, while it runs.
func (f *Feeding) tune(first *Conn) {
	if f.options.Bounds.Most <= 1 || f.options.Steered {
		return
	}
	info := first.Info()
	tuner := parallel.New(leastRTT(info), f.options.Earlier, f.options.Bounds)
	f.choose(tuner.Choice())
	if info == nil {
		return // it is not the kernel's connection: nothing can be learnt about it
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	look := &lookout{seen: make(map[*Conn]unix.TCPInfo)}
	for !tuner.Choice().Alone() { // a short path stays short
		select {
		case <-f.ctx.Done():
			return
		case now := <-ticker.C:
			if tuner.Limit(f.takesAtMost(), now) || tuner.Step(look.at(now, f.used())) {
				f.choose(tuner.Choice())
			} else {
				f.handOut(tuner.Choice().Piece)
			}
		}
	}
}

// steeredPiece is how much a stripe of a steered link gets at once: its window may
// be small.
const steeredPiece = 64 << 10

// Steer has a steered link have so many stripes. Those that are too many
// end when they have nothing under way.
func (f *Feeding) Steer(stripes int) {
	stripes = min(max(1, stripes), f.options.Bounds.Most)
	f.choose(parallel.Choice{Stripes: stripes, Reason: parallel.Fixed, Piece: steeredPiece})
}

// choose sets the number of stripes and the size of pieces.
func (f *Feeding) choose(choice parallel.Choice) {
	f.mu.Lock()
	f.choice = choice
	for _, l := range f.lines {
		f.ready(l)
	}
	f.announce()
	f.mu.Unlock()
	f.want(choice.Stripes)
	if f.options.Chosen != nil {
		f.options.Chosen(choice)
	}
}

// handOut sets the size of the pieces that stripes are given.
func (f *Feeding) handOut(piece uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if piece == f.choice.Piece {
		return
	}
	f.choice.Piece = piece
	for _, l := range f.lines {
		f.ready(l)
	}
}

// unsentPieces and leastUnsent are how much waits in a stripe's socket at most. If a stripe turns
// slow, all others wait for what is in its socket; so does what the child is told, as that it should open more stripes.
const (
	unsentPieces   = 2
	leastUnsent    = 32 << 10
	unsentSegments = 8
)

// ready has a stripe that has others beside it, or may have, take only what it is ready for. If this cannot be set, that costs
// nothing but time. It is called with f.mu held.
func (f *Feeding) ready(l *line) {
	if f.choice.Alone() {
		return
	}
	most := max(leastUnsent, unsentPieces*f.choice.Piece)
	if info := l.conn.Info(); info != nil {
		most = max(most, unsentSegments*uint64(info.Snd_mss)) // the kernel waits for whole ones, of 64 KiB within a machine
	}
	_ = l.conn.setUnsent(most)
}

// used returns the stripes that are in use.
func (f *Feeding) used() (conns []*Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lines[:min(len(f.lines), f.choice.Stripes)] {
		conns = append(conns, l.conn)
	}
	return conns
}

// lookout adds up what the kernel knows of a link's stripes.
type lookout struct {
	seen  map[*Conn]unix.TCPInfo
	facts parallel.Facts
}

// at returns the facts at a time.
func (o *lookout) at(now time.Time, conns []*Conn) parallel.Facts {
	o.facts.At = now
	o.forget(conns)
	var rtt, busy, known time.Duration
	for _, conn := range conns {
		info := conn.Info()
		if info == nil {
			continue // it is ending
		}
		before := o.seen[conn]
		o.seen[conn] = *info
		o.facts.Delivered += info.Bytes_acked - before.Bytes_acked
		o.facts.Sent += uint64(info.Data_segs_out - before.Data_segs_out)
		o.facts.Lost += uint64(info.Total_retrans - before.Total_retrans)
		if least := microseconds(info.Min_rtt); o.facts.LeastRTT == 0 || least < o.facts.LeastRTT {
			o.facts.LeastRTT = least
		}
		rtt += microseconds(info.Rtt)
		busy += time.Duration(info.Busy_time-before.Busy_time) * time.Microsecond
		known++
	}
	if known > 0 {
		o.facts.RTT = rtt / known
		o.facts.Busy += busy / known
	}
	return o.facts
}

// forget drops from the lookout stripes that have ended.
func (o *lookout) forget(conns []*Conn) {
	maps.DeleteFunc(o.seen, func(conn *Conn, _ unix.TCPInfo) bool { return !slices.Contains(conns, conn) && conn.Info() == nil })
}

// leastRTT returns the round trip of a connection's path, without the time that its ends took to answer; zero if it is not the kernel's connection.
func leastRTT(info *unix.TCPInfo) time.Duration {
	if info == nil {
		return 0
	}
	return microseconds(min(info.Min_rtt, info.Rtt))
}

func microseconds(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
