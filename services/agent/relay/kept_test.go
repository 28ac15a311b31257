package relay_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// An ended delivery is kept for latecomers until others need its room.
func TestKeptDeliveryGivesWay(t *testing.T) {
	const size = 1<<20 + 12_345 // not a number of whole segments
	w := newWorld(t, size, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 4<<20)
	w.tree("sa1", "sender", "r1")
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
	w.assign("sa1", true)
	if held := w.agents["sa1"].Held(); held != size {
		t.Fatalf("%d bytes are kept, want all", held)
	}
	entry := w.agents["sa1"].Cache.Create()
	defer entry.Close()
	w.await("there is room", func() bool { return entry.Claim(7<<19) == 7<<19 })
}

// Of several deliveries that are kept, no more give way than have to, and those that ended first do.
func TestKeptDeliveriesGiveWayOneByOne(t *testing.T) {
	const kept, size, aside = 3, 256 << 10, 64 << 10
	w := newWorld(t, size, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	a := w.start("sa1", kept*size*8/7+8)
	for range kept {
		w.id[0]++
		w.tree("sa1", "sender", "r1")
		w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
		w.await("the links end", func() bool { return a.Load().Links == 0 })
		w.assign("sa1", true)
	}
	if held := a.Held(); held != kept*size {
		t.Fatalf("%d bytes are kept, want all", held)
	}
	entry := a.Cache.Create()
	defer entry.Close()
	for gaveWay := range kept - 1 {
		freed := a.Cache.Freed()
		want := uint64(max(gaveWay*size, aside) + 16)
		if entry.Claim(want) == want {
			t.Fatalf("%d gave way before they had to", gaveWay+1)
		}
		<-freed
		if room := entry.Claim(want); room != want {
			t.Fatalf("room for %d bytes, want %d", room, want)
		}
		entry.Claim(uint64(gaveWay+1) * size)
	}
	reports := a.Reports()
	for _, report := range reports {
		if isLast := report.GetDelivery() == hex.EncodeToString(w.id[:]); report.GetHeldBytes() > 0 != isLast {
			t.Errorf("of %s, the last one: %t, %d bytes are kept", report.GetDelivery(), isLast, report.GetHeldBytes())
		}
	}
	if len(reports) != kept {
		t.Errorf("%d are reported, want %d", len(reports), kept)
	}
}

// A latecomer for what has given way is told that it is gone, and no room is set aside for what nobody sends any more:
// not by the agent that the sender fed, and not by an agent that this one feeds.
func TestWhatGaveWayTakesNoRoom(t *testing.T) {
	const room = 4 << 20
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2<<20, spec)
			first, second := w.start("sa1", room), w.start("sa2", room)
			w.tree("sa1", "sender", "sa2")
			w.tree("sa2", "sa1", "r1")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
			w.assign("sa1", true)
			w.assign("sa2", true)
			for _, a := range []*agent{first, second} {
				other := a.Cache.Create()
				w.await("it gave way", func() bool { return other.Claim(room*7/8) == room*7/8 })
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			}
			second.children = append(second.children, w.neighbour("late"))
			w.version++
			w.assign("sa2", true)
			late := newMember("late")
			ctx, stop := context.WithCancel(t.Context())
			var pulling sync.WaitGroup
			defer pulling.Wait()
			defer stop()
			pulling.Go(func() { _ = w.pull(ctx, late, func() string { return "sa2" }) })
			w.await("the second agent cannot get it", func() bool {
				reports := second.Reports()
				return len(reports) == 1 && reports[0].GetLost() == "sa1"
			})
			if late.isDone() || first.Cache.Reserved() > 0 || second.Cache.Reserved() > 0 {
				t.Errorf("it came: %t; set aside: %d and %d bytes", late.isDone(), first.Cache.Reserved(), second.Cache.Reserved())
			}
		})
	}
}

// delivered returns a world in which an agent has given an object to its only member, so that all links have ended.
func delivered(t *testing.T, size int) *world {
	t.Helper()
	w := newWorld(t, size, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 4<<20)
	w.tree("sa1", "sender", "r1")
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
	w.await("the links end", func() bool { return w.agents["sa1"].Load().Links == 0 })
	return w
}

// If more deliveries are kept than may be, something is given back.
func TestNoMoreAreKeptThanMayBe(t *testing.T) {
	w := delivered(t, 12_345)
	a := w.agents["sa1"]
	w.assign("sa1", true)
	if held := a.Held(); held != 12_345 {
		t.Fatalf("%d bytes are kept, want all", held)
	}
	a.Kept = 0
	w.assign("sa1", true)
	if held := a.Held(); held != 0 {
		t.Errorf("%d bytes are kept of one delivery more than may be", held)
	}
}

// What bounds what is kept are the files that it has open: a large object has many.
func TestFilesThatAreKeptAreBounded(t *testing.T) {
	w := delivered(t, 1<<20) // in segments of 128 KiB
	a := w.agents["sa1"]
	a.Kept = 8
	w.assign("sa1", true)
	if held := a.Held(); held != 1<<20 {
		t.Errorf("%d bytes are kept in as many files as may be, want all", held)
	}
	a.Kept = 7
	w.assign("sa1", true)
	if held := a.Held(); held != 0 {
		t.Errorf("%d bytes are kept in more files than may be", held)
	}
}

// When no more files may be open, what is kept gives way, and deliveries go on.
func TestKeptFilesGiveWay(t *testing.T) {
	w := delivered(t, 1<<20)
	a := w.agents["sa1"]
	w.assign("sa1", true)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 3 // fewer than are open: none can be opened any more
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	w.await("it gives way", func() bool { return a.Held() == 0 })
}

// A delivery that has ended, has nothing to give and lacks room itself does not ask for more whenever others would have it give room: two of
// that kind would go on for ever.
func TestKeptDeliveryThatLacksRoomIsQuiet(t *testing.T) {
	spec := modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"]
	spec.SlowMember = &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE}
	w := newWorld(t, 12<<20, spec)
	w.start("sa1", 2<<20)
	cache := w.agents["sa1"].Cache
	other := cache.Create()
	defer other.Close()
	other.Claim(1 << 20)
	w.tree("sa1", "sender", "late")
	late := newMember("late")
	late.pace = 400 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = w.send(ctx, "sa1") })
	running.Go(func() { _ = w.pull(ctx, late, func() string { return "sa1" }) })
	w.await("all room is taken", func() bool { return w.agents["sa1"].Held() == 768<<10 })
	w.assign("sa1", true)
	w.agents["sa1"].Assign(&groupv1.Assignments{Current: []*groupv1.Assignment{{Delivery: strings.Repeat("0e", 16), Group: "g", Duty: groupv1.Duty_DUTY_RELAY, Spec: w.spec, Ended: true}}})
	for round := range 50 {
		pressure := cache.Pressure()
		other.Claim(2 << 20)
		<-pressure
		asked, quiet := 0, false
		for ; !quiet && asked <= 10; asked++ {
			select {
			case <-cache.Pressure():
			case <-time.After(20 * time.Millisecond):
				quiet = true
			}
		}
		if !quiet {
			t.Fatalf("round %d: room is asked for again and again", round)
		}
	}
}

// Deliveries that are kept are reported once, until something happens in one of them, or a manager says all that there is to do: it may be
// another manager.
func TestKeptDeliveriesAreReportedOnce(t *testing.T) {
	const kept = 1000
	w := newWorld(t, 1, &groupv1.DeliverySpec{})
	a := w.start("sa1", 1<<20)
	all := &groupv1.Assignments{Complete: true}
	for i := range kept {
		all.Current = append(all.Current, &groupv1.Assignment{
			Delivery: fmt.Sprintf("%032x", i), Group: "g", Duty: groupv1.Duty_DUTY_RELAY, TreeVersion: 1, Spec: w.spec, Ended: true,
		})
	}
	w.await("the agent runs", func() bool {
		a.Assign(all)
		return a.Deliveries() == kept
	})
	report := func() int { return len(a.Reports()) }
	if reported := report(); reported != kept {
		t.Errorf("%d of %d were reported", reported, kept)
	}
	time.Sleep(700 * time.Millisecond) // slow children are looked for meanwhile
	if again := report(); again != 0 {
		t.Errorf("%d are reported again though nothing has happened", again)
	}
	a.Assign(&groupv1.Assignments{Current: all.Current[:1]})
	if changed := report(); changed != 1 {
		t.Errorf("%d are reported, want the one that has another assignment", changed)
	}
	a.Assign(all)
	if anew := report(); anew != kept {
		t.Errorf("%d of %d are reported to who says all that there is to do", anew, kept)
	}
}
