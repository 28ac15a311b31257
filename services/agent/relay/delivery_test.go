package relay

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/relay"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/agent/cache"
)

// If more deliveries rest than a message can hold, they are reported in several; those that run are in each.
func TestReportsHaveABound(t *testing.T) {
	begin := func(ended time.Time) *delivery {
		return &delivery{assignment: &groupv1.Assignment{Delivery: "id"}, account: algo.New(algo.Rules{}), ended: ended}
	}
	one, other, running := begin(time.Now()), begin(time.Now()), begin(time.Time{})
	room := 1
	if one.report(&room) == nil || other.report(&room) != nil || running.report(&room) == nil {
		t.Error("want one that rests to be told, and the one that runs")
	}
	room = 1
	if one.report(&room) != nil || other.report(&room) == nil || running.report(&room) == nil {
		t.Error("want the other one that rests to be told, and the one that runs")
	}
}

// A delivery that is asked to give room gives no more than it has beyond its share, also if that share grows at the same moment.
func TestNoMoreThanWhatIsBeyondTheShareIsGiven(t *testing.T) {
	h := newHub(t, nil)
	limit := h.Cache.Limit()
	d, err := newDelivery(h, &groupv1.Assignment{Delivery: strings.Repeat("0a", 16)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	kept, half := limit*3/4, d.entry.Share()/2
	fill := func() {
		d.account.Reserve(d.entry.Claim(kept), math.MaxInt64)
		d.account.Arrived(d.account.Credit())
	}
	fill()
	for round := range 200_000 {
		other := h.Cache.Create() // each has half of it now,
		closed := make(chan error, 1)
		go func() { closed <- other.Close() }() // and now all of it
		d.relieve()
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if held := d.held(); held < half {
			t.Fatalf("round %d: %d bytes are kept of %d, which are less than the share of %d", round, held, kept, half)
		}
		fill()
	}
}

// What is kept for latecomers is given up only for a disk without room: not once the disk has room again, nor where it takes nothing for
// another reason.
func TestTriesOfADiskGiveUpNothingThatIsKept(t *testing.T) {
	h, dir := newHub(t, nil), t.TempDir()
	var err error
	if h.Cache, err = cache.Open(dir, 1<<20, cache.Disk{}); err != nil {
		t.Fatal(err)
	}
	begin := func(digit string) *delivery {
		d, err := newDelivery(h, &groupv1.Assignment{Delivery: strings.Repeat(digit, 16)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.stop)
		h.deliveries[digit] = d
		return d
	}
	kept, lacks := begin("0a"), begin("0b")
	kept.account.Reserve(kept.entry.Claim(1<<18), 1<<18)
	kept.account.Arrived(1 << 18)
	kept.ended = time.Now()
	for _, broken := range []bool{false, true} {
		lacks.trouble = noRoom
		if broken {
			if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if why := lacks.unfit(); (why == errBroken) != broken || !broken && why != nil {
			t.Errorf("broken: %t, it takes nothing for %v", broken, why)
		}
		if held := kept.held(); held != 1<<18 {
			t.Errorf("broken: %t, %d bytes are kept, want all", broken, held)
		}
	}
}

// A delivery that runs keeps its beginning, for members that come late to it, as long as there are others that have ended and keep what
// nobody needs: they give way first, and of these the one that has lost its beginning already.
func TestWhatIsKeptGivesWayFirst(t *testing.T) {
	const length = 448 << 10 // two of them fill the cache, but for what is set aside
	h := newHub(t, nil)
	begin := func(digit string, child string) *delivery {
		d, err := newDelivery(h, &groupv1.Assignment{
			Delivery: strings.Repeat(digit, 16), Spec: &groupv1.DeliverySpec{Length: length}, Children: []*groupv1.Neighbour{{Name: child}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.stop)
		h.deliveries[digit] = d
		d.update(func() { d.expectChildren(); d.wanted = true })
		return d
	}
	arrive := func(d *delivery, child string) {
		d.update(func() {
			d.account.Arrived(d.account.Credit())
			d.account.Sent(child, d.account.Offset())
			if err := d.account.Acked(child, d.account.Offset()); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, digit := range []string{"0a", "0b"} {
		kept := begin(digit, "r1")
		for kept.account.Offset() < length*3/4 {
			arrive(kept, "r1")
		}
		kept.update(func() { kept.ended = time.Now(); kept.entry.Rest() })
	}
	whole, rest := h.deliveries["0a"], h.deliveries["0b"]
	rest.update(func() { rest.discard(1) })
	runs := begin("0c", "r1")
	for before := uint64(1); before != runs.account.Offset(); {
		before = runs.account.Offset()
		arrive(runs, "r1")
	}
	if from, offset := runs.keptFrom(), runs.account.Offset(); from > 0 || offset == length {
		t.Fatalf("it is kept from %d on, and has %d bytes, though others have the room", from, offset)
	}
	if gave := h.giveUpKept(); !gave || whole.held() == 0 || rest.held() > 0 {
		t.Errorf("one gave way: %v; of one that is whole %d bytes are kept, of the other %d", gave, whole.held(), rest.held())
	}
	for range 100 {
		arrive(runs, "r1")
	}
	if from, offset := runs.keptFrom(), runs.account.Offset(); from > 0 || offset != length {
		t.Errorf("it is kept from %d on, and has %d bytes of %d", from, offset, length)
	}
}

// Room is given back by a list of all deliveries. One of them may have been dropped meanwhile: it takes no room any more.
func TestDroppedDeliveryTakesNoRoom(t *testing.T) {
	for name, ended := range map[string]bool{"runs": false, "has ended": true} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, nil)
			d, err := newDelivery(h, &groupv1.Assignment{
				Delivery: strings.Repeat("0a", 16), Ended: ended, Spec: &groupv1.DeliverySpec{Length: math.MaxInt64},
				Children: []*groupv1.Neighbour{{Name: "r1"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			const half, all = 256 << 10, 512 << 10
			d.wanted = true
			d.account.Reserve(d.entry.Claim(all), all)
			d.account.Arrived(all)
			d.account.Sent("r1", half)
			if err := d.account.Acked("r1", half); err != nil {
				t.Fatal(err)
			}
			d.stop()
			d.run()
			if d.releaseKept() {
				t.Error("it gives room after it has given back all")
			}
			d.update(func() {})
			if reserved := h.Cache.Reserved(); reserved > 0 {
				t.Errorf("%d bytes are set aside for it", reserved)
			}
		})
	}
}

// What stripes brought ahead of what has arrived is not kept once the delivery has ended and nobody sends: no room is set aside for it.
func TestNothingIsKeptBehindWhatHasArrived(t *testing.T) {
	const promised, arrived, ahead = 512 << 10, 100 << 10, 300 << 10
	h := newHub(t, nil)
	d, err := newDelivery(h, &groupv1.Assignment{Delivery: strings.Repeat("0a", 16), Spec: &groupv1.DeliverySpec{Length: promised}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	d.wanted = true
	d.account.Reserve(d.entry.Claim(promised), promised)
	for _, offset := range []uint64{arrived - 1, ahead} {
		file, at, _, err := d.entry.Section(offset)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(make([]byte, 1000), int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	d.account.Arrived(arrived)
	d.update(func() { d.ended = time.Now() })
	if reserved := h.Cache.Reserved(); reserved != arrived {
		t.Errorf("%d bytes are set aside for it, want %d", reserved, arrived)
	}
	if _, _, _, err := d.entry.At(ahead); err == nil {
		t.Error("what came ahead is still there")
	}
	file, at, _, err := d.entry.At(arrived)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil || info.Size() != int64(at) {
		t.Errorf("the last segment has %d bytes, want %d: %v", info.Size(), at, err)
	}
}
