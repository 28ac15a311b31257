package relay_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// Whatever happens, these hold. What was promised fits. What a child lacks that does not wait is kept. Credit and discarded only grow
// until the delivery begins again. An end-to-end acknowledgement is never ahead of a child. Once nothing is in the way any more, every
// child gets everything. That includes streams, though they do not end, and their sender keeps only what some child lacks and reads
// only as much as it has room for.
func TestPromises(t *testing.T) { rapid.Check(t, keepsPromises) }

func FuzzPromises(f *testing.F) { f.Fuzz(rapid.MakeFuzz(keepsPromises)) }

// delivery is an account with an owner, a parent and children that do what they can.
type delivery struct {
	*relay.Account
	t        *rapid.T
	mode     relay.Mode
	room     uint64
	length   uint64
	now      time.Time
	children []string
	has      map[string]uint64
	waits    map[string]bool
	there    map[string]bool
	stream   bool
	keeps    uint64 // of a stream: how much its sender keeps ahead of the child that has the least
}

func keepsPromises(t *rapid.T) {
	d := &delivery{
		t: t, now: start, has: make(map[string]uint64), waits: make(map[string]bool), there: make(map[string]bool),
		mode: rapid.SampledFrom([]relay.Mode{relay.Hop, relay.EndToEnd}).Draw(t, "mode"),
		room: rapid.Uint64Range(1, 64).Draw(t, "room") * block, length: rapid.Uint64Range(0, 256).Draw(t, "length") * block,
	}
	slow := rapid.SampledFrom([]relay.Action{relay.Pace, relay.Detach}).Draw(t, "slow")
	if d.stream = rapid.Bool().Draw(t, "stream"); d.stream {
		d.keeps = rapid.Uint64Range(1, 64).Draw(t, "keeps") * block
	}
	d.Account = relay.New(relay.Rules{Mode: d.mode, Window: 16 * block, Slow: slow, Stream: d.stream})
	d.children = []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(t, "children")]
	d.Expect(d.children)
	for range rapid.IntRange(0, 200).Draw(t, "steps") {
		d.now = d.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "milliseconds")) * time.Millisecond)
		d.step(rapid.SampledFrom([]string{"arrives", "arrives", "acknowledges", "acknowledges", "discards", "comes", "goes", "ready", "full"}).Draw(t, "step"))
		d.check()
	}
	d.finish()
}

// settle does what the owner of an account does after every event.
func (d *delivery) settle() {
	if from, needed := d.Unpark(start); needed {
		d.Restart(from)
	}
	if from, needed := d.Resume(d.now); needed {
		if from < d.kept() {
			d.t.Fatalf("it begins again from %d, the sender has nothing before %d", from, d.kept())
		}
		d.Restart(from)
	}
	for _, child := range d.children {
		if d.waits[child] = d.waits[child] && d.Waiting() > 0; !d.waits[child] {
			continue
		}
		d.waits[child] = !d.Serves(child)
	}
	credit := d.Credit()
	d.Reserve(d.room, d.length)
	if d.Credit() < credit {
		d.t.Fatal("a promise was taken back")
	}
}

func (d *delivery) step(what string) {
	switch what {
	case "arrives":
		if more := d.toCome(); more > 0 {
			d.arrives(rapid.Uint64Range(1, more).Draw(d.t, "bytes"))
		}
	case "discards":
		before := d.Discarded()
		if d.Discard(rapid.Uint64Range(1, d.room).Draw(d.t, "discard"), math.MaxUint64) < before {
			d.t.Fatal("what was discarded is back")
		}
	case "full":
		for _, child := range d.ParkSlowest(d.now) {
			d.waits[child] = true
		}
	default:
		if len(d.children) > 0 {
			d.does(rapid.SampledFrom(d.children).Draw(d.t, "child"), what)
		}
	}
	d.settle()
}

// toCome returns how much more may come now, as far as the sender has it.
func (d *delivery) toCome() uint64 {
	upTo := min(d.Credit(), d.length)
	if d.stream {
		upTo = min(upTo, d.kept()+d.keeps)
	}
	return upTo - min(d.Offset(), upTo)
}

// kept returns the offset before which a stream's sender has nothing, as all children have that.
func (d *delivery) kept() (least uint64) {
	least = d.length
	for _, child := range d.children {
		least = min(least, d.has[child])
	}
	return least
}

func (d *delivery) arrives(bytes uint64) {
	d.Arrived(d.Offset() + bytes)
	if d.Offset() == d.length && !d.stream {
		d.End()
	}
}

// does makes a child do something.
func (d *delivery) does(child, what string) {
	switch what {
	case "acknowledges":
		if d.there[child] && d.Serves(child) && d.has[child] < d.Offset() {
			d.take(child, rapid.Uint64Range(d.has[child], d.Offset()).Draw(d.t, "acked"))
		}
	case "comes":
		d.there[child] = true
		switch served := d.Attach(child, d.has[child], d.now); {
		case served:
			d.waits[child] = false
		case d.waits[child]:
		case d.mode == relay.EndToEnd, d.stream, d.Bare():
			d.Restart(d.has[child])
		default:
			d.Park(child)
			d.waits[child] = true
		}
	case "ready":
		if d.there[child] {
			d.Ready(child)
		}
	case "goes":
		d.there[child] = false
		d.Detach(child)
	}
}

func (d *delivery) take(child string, upTo uint64) {
	d.has[child] = upTo
	d.Sent(child, upTo)
	if err := d.Acked(child, upTo); err != nil {
		d.t.Fatal(err)
	}
}

func (d *delivery) check() {
	if d.Reserved() > d.room {
		d.t.Fatalf("%d bytes are promised, there is room for %d", d.Reserved(), d.room)
	}
	for _, child := range d.children {
		if !d.waits[child] && d.Discarded() > d.has[child] {
			d.t.Fatalf("%s lacks what was discarded, from %d to %d", child, d.has[child], d.Discarded())
		}
		if d.mode == relay.EndToEnd && !d.waits[child] && d.Ack() > d.has[child] {
			d.t.Fatalf("%d bytes are acknowledged, %s has %d", d.Ack(), child, d.has[child])
		}
	}
}

// finish brings back the children that went, and lets all take what there is until nobody lacks anything.
func (d *delivery) finish() {
	for _, child := range d.children {
		if !d.there[child] {
			d.does(child, "comes")
		}
	}
	for range 10 * 256 {
		d.now = d.now.Add(time.Second)
		d.settle()
		if more := d.toCome(); more > 0 {
			d.arrives(more)
		}
		for _, child := range d.children {
			d.does(child, "ready")
			if d.Serves(child) && d.has[child] < d.Offset() {
				d.take(child, d.Offset())
			}
		}
		d.Discard(d.room, math.MaxUint64)
		d.check()
	}
	for _, child := range d.children {
		if d.has[child] != d.length {
			d.t.Fatalf("%s has %d of %d bytes, and does not get on: arrived %d, discarded %d, credit %d, %d wait", child, d.has[child], d.length, d.Offset(), d.Discarded(), d.Credit(), d.Waiting())
		}
	}
}

// With Detach two children wait for bytes that the cache no longer has. The one that needs less comes again, and the
// delivery begins again where it is. The other goes on waiting, and when the others are done the delivery begins again for
// it.
func TestWhoNeedsMoreGoesOnWaiting(t *testing.T) {
	a := relay.New(relay.Rules{Mode: relay.EndToEnd, Window: 16 * block, Slow: relay.Detach})
	a.Expect([]string{"ahead", "behind", "last"})
	for _, child := range []string{"ahead", "behind", "last"} {
		a.Attach(child, 0, start)
	}
	a.Reserve(block, 2*block)
	a.Arrived(block)
	for child, upTo := range map[string]uint64{"ahead": block, "behind": 1} {
		a.Sent(child, upTo)
		if err := a.Acked(child, upTo); err != nil {
			t.Fatal(err)
		}
	}
	a.Park("behind")
	a.Park("last")
	a.Discard(block, math.MaxUint64)
	if served := a.Attach("behind", 1, start); served {
		t.Fatal("it is served from what was discarded")
	}
	a.Restart(1)
	if waiting := a.Waiting(); waiting != 1 || a.Serves("last") || !a.Serves("behind") {
		t.Errorf("%d wait, want the one that lacks what came before", waiting)
	}
	a.Reserve(2*block, 2*block)
	a.Arrived(2 * block)
	a.End()
	for _, child := range []string{"ahead", "behind"} {
		a.Sent(child, 2*block)
		if err := a.Acked(child, 2*block); err != nil {
			t.Fatal(err)
		}
	}
	if from, needed := a.Unpark(start); from != 0 || !needed {
		t.Errorf("it begins again from %d: %t, want from the first byte", from, needed)
	}
}

// A delivery is about to begin again at the offset of all children that have come. If a child comes before that and needs
// more, it begins at the offset of that child. The same goes while nothing has come yet; once something has come, that is
// for the others first.
func TestWhoComesAMomentLaterIsNotLeftOut(t *testing.T) {
	a := relay.New(relay.Rules{Mode: relay.Hop})
	a.Expect([]string{"first", "second"})
	a.Attach("first", 4*block, start)
	a.Attach("second", 3*block, start)
	if from := a.Needed(4 * block); from != 3*block {
		t.Errorf("it begins again from %d, want from %d", from, 3*block)
	}
	a.Restart(3 * block)
	if !a.Bare() {
		t.Error("something has come since it began")
	}
	a.Reserve(block, 8*block)
	a.Arrived(4 * block)
	if a.Bare() {
		t.Error("nothing has come since it began")
	}
}
