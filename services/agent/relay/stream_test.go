package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// newStream returns a world in which a stream is sent.
func newStream(t *testing.T, size int, spec *groupv1.DeliverySpec) *world {
	w := newWorld(t, size, spec)
	spec.Kind, spec.Length, spec.LengthUnknown = groupv1.DeliveryKind_DELIVERY_KIND_STREAM, 0, true
	return w
}

// source is what a sender has of a stream: what its members lack, and as much more as it has room for.
type source struct {
	file         *os.File
	length, room uint64
	former       bool // it is of the version before, and does not say from where on it has something

	mu      sync.Mutex
	members []*member // the members that it waits for
}

// span returns from where and up to where it has the stream.
func (s *source) span() (kept, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept = s.length
	for _, m := range s.members {
		kept = min(kept, uint64(m.has()))
	}
	return kept, min(s.length, kept+s.room)
}

// countOn makes others the members that it waits for.
func (s *source) countOn(members ...*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = members
}

func (s *source) Next(offset, most uint64) (link.Portion, error) {
	kept, upTo := s.span()
	portion := link.Portion{TreeVersion: 1}
	switch {
	case offset < kept && s.former:
		return portion, &link.Bye{Reason: wire.Protocol, Text: "asked for what is not kept"}
	case offset < kept:
		return portion, &link.Bye{Reason: wire.NotKept, Text: "asked for what is not kept any more", Offset: kept}
	case offset < upTo:
		portion.File, portion.At, portion.Length = s.file, offset, min(most, upTo-offset)
	case offset == s.length:
		portion.End = &link.End{Length: s.length}
	default:
		changed := make(chan struct{})
		time.AfterFunc(2*time.Millisecond, func() { close(changed) })
		portion.Changed = changed
	}
	return portion, nil
}

func (s *source) Sent(uint64, link.Portion)      {}
func (s *source) Acked(uint64, wire.Level) error { return nil }

// stream sends to an agent from a source that waits for members, until the test ends.
func (w *world) stream(to string, room uint64, members ...*member) *source {
	w.Helper()
	file, err := w.source()
	if err != nil {
		w.Fatal(err)
	}
	from := &source{file: file, length: uint64(len(w.content)), room: room, members: members}
	w.background(func(ctx context.Context) { w.sendFrom(ctx, to, from) })
	w.Cleanup(func() { _ = file.Close() })
	return from
}

// background does something until the test ends.
func (w *world) background(do func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { do(ctx) })
	end = func() { cancel(); running.Wait() }
	w.Cleanup(end)
	return end
}

// pulls has a member pull from an agent in the background.
func (w *world) pulls(m *member, from string) (end func()) {
	return w.background(func(ctx context.Context) { _ = w.pull(ctx, m, func() string { return from }) })
}

func (w *world) wantWhole(m *member) {
	w.Helper()
	w.await(m.name+" has all", m.isDone)
	if !bytes.Equal(m.got.Bytes(), w.content) {
		w.Errorf("%s has other bytes than were sent", m.name)
	}
}

// A member that wants what the sender of a stream does not keep any more is told from where on it is kept, and stops nobody: also
// below an agent that is told so by the agent above.
func TestWhoWantsWhatAStreamHasNoMoreStopsNobody(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newStream(t, 8<<20, spec)
			w.start("sa1", 1<<20)
			w.start("sa2", 1<<20)
			w.tree("sa1", "sender", "r1", "sa2")
			w.tree("sa2", "sa1", "r2", "r3")
			members := []*member{newMember("r1"), newMember("r2"), newMember("r3")}
			from := w.stream("sa1", 64<<10, members...)
			w.pulls(members[0], "sa1")
			w.pulls(members[1], "sa2")
			dies := w.pulls(members[2], "sa2")
			w.await("half is there", func() bool { kept, _ := from.span(); return kept > 4<<20 })
			dies()
			from.countOn(members[:2]...)
			w.wantNotKept("r3", "sa2")
			for _, m := range members[:2] {
				w.wantWhole(m)
			}
		})
	}
}

// A member that is behind is fed from the cache alone, if the sender does not count on it: the cache is not emptied for another that
// wants what the sender does not keep any more.
// A sender of the version before ends the link then without a word of what it has; that ends the stream for nobody else.
func TestCacheIsKeptWhenThereIsNoMore(t *testing.T) {
	for _, mode := range []string{"CONTROL_MODE_HOP", "CONTROL_MODE_END_TO_END"} {
		for _, former := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, former %t", mode, former), func(t *testing.T) {
				t.Parallel()
				w := newStream(t, 8<<20, modes()[mode+"-DATA_PLANE_PLAINTEXT"])
				w.start("sa1", 16<<20)
				w.start("sa2", 16<<20)
				w.tree("sa1", "sender", "fast", "sa2")
				w.tree("sa2", "sa1", "slow")
				fast, slow := newMember("fast"), newMember("slow")
				slow.pace = 20 * time.Millisecond
				w.stream("sa1", 8<<20, fast).former = former
				w.pulls(fast, "sa1")
				w.pulls(slow, "sa2")
				w.await("the cache alone has what one lacks, and none the beginning", func() bool {
					for _, agent := range w.agents {
						if report := agent.Reports()[0]; report.GetHeldBytes() == report.GetBytes() {
							return false
						}
					}
					return fast.has() == 8<<20
				})
				w.version++
				w.tree("sa2", "sa1", "slow", "new")
				w.wantNotKept("new", "sa2")
				slow.quicken()
				w.wantWhole(slow)
				w.wantWhole(fast)
				w.wantNotBegunAgain()
			})
		}
	}
}

// wantNotBegunAgain checks that no agent has emptied its cache.
func (w *world) wantNotBegunAgain() {
	w.Helper()
	for name, agent := range w.agents {
		if n := agent.count(w, "restarts"); n > 0 {
			w.Errorf("%s began again %v times", name, n)
		}
	}
}

// wantNotKept has a member ask for the beginning of a stream until it is told that this is no longer kept.
func (w *world) wantNotKept(name, from string) {
	w.Helper()
	id := identity.ID{Role: identity.Member, Name: name}
	w.await("it is told so", func() bool {
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		conn, _, err := link.Dial(ctx, &net.Dialer{}, w.agents[from].address, w.identity(id), identity.ID{Role: identity.Agent, Name: from}, w.hello(w.capability(id, identity.Receive)))
		if err == nil {
			err = link.NewTaking(ctx, 0, newMember(name), link.Options{}).Run(conn)
		}
		kept, is := link.NotKept(err)
		if is && kept == 0 {
			w.Error("it is told that all is kept")
		}
		if errors.Is(err, context.DeadlineExceeded) {
			w.Fatal("it waits for what nobody has")
		}
		return is
	})
}

// A member that comes to an agent that has given back what it lacks of a stream, because its own died, gets it at once: the stream
// need not end for that.
func TestMovedMemberOfAStreamIsServedAtOnce(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newStream(t, 8<<20, spec)
			w.start("sa1", 1<<20)
			w.tree("sa1", "sender", "r1")
			first, moved := newMember("r1"), newMember("r2")
			w.stream("sa1", 4<<20, first, moved)
			w.pulls(first, "sa1")
			w.await("the first has all that there is", func() bool { return first.has() == 4<<20 })
			w.version++
			w.tree("sa1", "sender", "r1", "r2")
			w.pulls(moved, "sa1")
			w.wantWhole(moved)
			w.wantWhole(first)
		})
	}
}

// A member that is slow loses its place in a cache that is full. The others go on, and the source waits for it: it gets what it lacks when the
// others have all that there is, and in the end all have all.
func TestDetachedMemberOfAStreamGoesOn(t *testing.T) {
	for _, mode := range []string{"CONTROL_MODE_HOP", "CONTROL_MODE_END_TO_END"} {
		t.Run(mode, func(t *testing.T) {
			w := newStream(t, 8<<20, modes()[mode+"-DATA_PLANE_PLAINTEXT"])
			w.start("sa1", 1<<20)
			w.tree("sa1", "sender", "fast", "slow")
			fast, slow := newMember("fast"), newMember("slow")
			slow.pace = 40 * time.Millisecond
			w.stream("sa1", 4<<20, fast, slow)
			w.pulls(fast, "sa1")
			w.pulls(slow, "sa1")
			w.await("one loses its place", func() bool { return w.childOf("sa1", "slow").GetWaits() })
			w.await("the other has what there is", func() bool { return fast.has() >= 4<<20 })
			slow.quicken()
			w.wantWhole(slow)
			w.wantWhole(fast)
		})
	}
}

// A member that lost its place goes on also beside one whose reader has paused, which may lack something for ever: the source waits for it.
func TestDetachedMemberOfAStreamGoesOnBesideOneThatPauses(t *testing.T) {
	t.Parallel()
	const kept = 8 << 20
	w := newStream(t, 16<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"])
	w.start("sa1", 4<<20)
	w.tree("sa1", "sender", "fast", "slow")
	fast, slow, pauses := newMember("fast"), newMember("slow"), newMember("pauses")
	slow.pace = 40 * time.Millisecond
	pauses.goesOn = make(chan struct{})
	defer close(pauses.goesOn)
	pauses.got.Write(w.content[:kept-512<<10])
	w.stream("sa1", kept, fast, slow)
	w.pulls(fast, "sa1")
	w.pulls(slow, "sa1")
	w.await("one loses its place", func() bool { return w.childOf("sa1", "slow").GetWaits() })
	w.await("the other has what there is", func() bool { return fast.has() >= kept })
	w.version++
	w.tree("sa1", "sender", "fast", "slow", "pauses")
	w.pulls(pauses, "sa1")
	w.await("a third has come", func() bool { return w.childOf("sa1", "pauses").GetConnected() })
	slow.quicken()
	w.wantWhole(slow)
	w.wantWhole(fast)
}

// An agent whose cache is full because its only reader pauses takes nothing, and answers: it loses its place again after the delivery has
// begun again for it. When the reader goes on, the agent says that it can take more, and the delivery begins again for it.
func TestAgentWhoseReaderPausesGoesOn(t *testing.T) {
	t.Parallel()
	w := newStream(t, 16<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"])
	w.start("sa1", 4<<20)
	w.start("sa2", 1<<20)
	w.tree("sa1", "sender", "live", "sa2")
	w.tree("sa2", "sa1", "pauses")
	live, pauses := newMember("live"), newMember("pauses")
	pauses.goesOn = make(chan struct{})
	from := w.stream("sa1", 12<<20, live, pauses)
	w.pulls(live, "sa1")
	w.pulls(pauses, "sa2")
	waits := func() bool { return w.childOf("sa1", "sa2").GetWaits() }
	w.await("the agent loses its place", waits)
	w.await("the other has what there is", func() bool { _, upTo := from.span(); return uint64(live.has()) == upTo })
	w.await("it begins again", func() bool { return w.agents["sa1"].count(w, "restarts") > 0 && !waits() })
	w.await("the agent loses its place again", waits)
	close(pauses.goesOn)
	w.wantWhole(pauses)
	w.wantWhole(live)
}

// C6: where the cache has room for everything, a member that hangs holds up the others only for a while: by the bound on what is cached
// of a stream, and by what end-to-end control lets be under way.
func TestC6WhoHangsHoldsUpNobodyWhereThereIsRoom(t *testing.T) {
	for _, tt := range []struct {
		mode   string
		stream bool
	}{{"CONTROL_MODE_HOP", true}, {"CONTROL_MODE_END_TO_END", true}, {"CONTROL_MODE_END_TO_END", false}} {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			const size = 40 << 20
			w := newWorld(t, size, modes()[tt.mode+"-DATA_PLANE_PLAINTEXT"])
			if tt.stream {
				w = newStream(t, size, w.spec)
			}
			w.start("sa1", 128<<20).SetStreamWindow(16 << 20)
			w.tree("sa1", "sender", "other", "hangs")
			other, hangs := newMember("other"), newMember("hangs")
			hangs.goesOn = make(chan struct{})
			w.background(func(ctx context.Context) { _ = w.send(ctx, "sa1") })
			w.pulls(hangs, "sa1")
			w.pulls(other, "sa1")
			w.wantWhole(other)
			close(hangs.goesOn)
			w.wantWhole(hangs)
		})
	}
}
