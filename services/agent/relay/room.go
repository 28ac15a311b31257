package relay

import (
	"math"
	"time"
)

const (
	// firstAhead is how far credit goes beyond what has arrived, at most, before it is known how fast bytes come. Like
	// endToEndWindow, it suffices for 10 Gbit/s and 10 ms.
	firstAhead = 16 << 20
	// firstOfStream is the same for streams, of which many may be quiet for hours: a promise is kept as long.
	firstOfStream = 1 << 20
	// aheadTime is how long what is promised lasts, at the rate at which bytes come.
	aheadTime = 2 * time.Second
)

// relieve gives back what is beyond the share while others lack room.
func (d *delivery) relieve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reserved, share := d.account.Reserved(), d.entry.Share(); reserved > share {
		d.discard(reserved - share)
		d.follow()
	}
}

// releaseKept gives back all that no child needs, and reports whether that was anything. Where it was
// not, nothing is promised: a delivery that lacks room itself would ask for some, be asked to give some back, and so on.
func (d *delivery) releaseKept() (gaveBack bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released {
		return false // the caller's list of deliveries is a moment old
	}
	before := d.account.Held()
	if d.discardAll(); d.account.Held() == before {
		return false
	}
	d.promiseRoom()
	d.announce()
	return true
}

// All functions below are called with d.mu held.

// promiseRoom promises the parent as much room as it should have, and begins again for children that wait when their turn has come.
func (d *delivery) promiseRoom() {
	if d.released || !d.wanted || d.begin != nil {
		return // its room is given back, nobody has asked yet, or all this begins again
	}
	if d.skip() {
		return
	}
	length := d.length()
	if d.account.Offset() > length { // it began where children of a stream said that they were, before anybody knew how long it is
		d.begin = &length
		return
	}
	if d.ended.IsZero() || d.intake != nil || d.asking {
		d.promise(length)
	} else {
		d.withdraw() // nobody may ever send it
	}
	d.entry.ShrinkTo(d.account.Reserved())
	d.entry.Offer(d.spare())
	if from, needed := d.account.Unpark(time.Now()); needed {
		d.begin = &from
	}
}

// spare returns how much is kept of a delivery that has ended, for members that may come late.
func (d *delivery) spare() uint64 {
	if d.ended.IsZero() {
		return 0
	}
	return d.account.Spare(d.readFrom())
}

// promise gives credit for the room that there is, and makes some where there is none and none is about to be: what is kept of
// deliveries that have ended gives way before the beginning of this one does, for members that come late to it.
func (d *delivery) promise(length uint64) {
	if d.isStream() {
		d.discard(math.MaxUint64)
	}
	want := d.want(length)
	room := d.claim(want)
	d.account.Reserve(room, length)
	if low := max(d.share()/4, 1); room < want && d.account.Credit()-d.account.Offset() <= low {
		if d.hub.Cache.Offered() {
			return // to claim it had the hub take it back
		}
		d.makeSome(low)
		want = d.want(length)
		d.account.Reserve(d.claim(want), length)
	} else if d.isStarved() && len(d.account.ParkBrakes(time.Now())) > 0 {
		d.promise(length)
	}
}

// withdraw takes back what was promised and did not come. Stripes may have brought pieces from further on ahead of time: they are
// given back, too.
func (d *delivery) withdraw() {
	if d.account.Credit() == d.account.Offset() {
		return
	}
	d.account.Withdraw()
	if err := d.entry.Cut(d.account.Offset()); err != nil {
		d.log.Error("room of the cache could not be given back", "error", err)
	}
}

// makeSome makes room for a number of bytes. Where nothing more may come before there is some, a segment that is not full
// is given back, too: each of many deliveries may have less than a segment.
func (d *delivery) makeSome(needed uint64) {
	before := d.account.Discarded()
	d.discard(needed)
	if len(d.account.ParkSlowest(time.Now())) > 0 {
		d.discard(needed)
	}
	if d.account.Stalled() && d.account.Discarded() == before {
		d.discardAll()
	}
}

// share is how much room the delivery may have: as much as the others, or what it has already.
func (d *delivery) share() uint64 { return max(d.entry.Share(), d.account.Reserved()) }

// claim takes room of the cache for the delivery, up to what it wants and within its share, and returns how much it has then.
func (d *delivery) claim(want uint64) uint64 {
	most := min(want, d.share())
	return min(d.entry.Claim(most), most)
}

// want returns how much room the delivery should have: what it holds, and what may come soon. A promise cannot be
// taken back, so that a delivery whose bytes come slowly must not take all the room that others will need.
func (d *delivery) want(length uint64) uint64 {
	want := d.account.Want(length)
	first := uint64(firstAhead)
	if d.isStream() {
		want, first = min(want, d.hub.streamWindow), firstOfStream
	}
	ahead := max(min(first, d.entry.Share()/4), d.recent)
	return max(min(want, d.account.Held()+ahead), d.account.Reserved())
}

// whileOpening returns about how much comes in the time that it takes to open the link to the parent anew.
func (d *delivery) whileOpening() uint64 {
	if d.intake == nil {
		return 1
	}
	const opening = 100 * time.Millisecond
	return max(64<<10, d.recent/uint64(aheadTime/opening))
}

// measure notes how much comes in aheadTime. It is called every checkInterval; a pause halves what is expected.
func (d *delivery) measure() {
	d.recent = max(d.came*uint64(aheadTime/checkInterval), d.recent/2)
	d.came = 0
}

// discard gives back room that nobody needs, at least a number of bytes if there is so much.
func (d *delivery) discard(needed uint64) {
	before := d.account.Discarded()
	d.discarded(before, d.account.Discard(min(needed, d.account.Held()), d.readFrom()), d.entry.Release)
}

// discardAll gives back all that nobody needs.
func (d *delivery) discardAll() {
	if d.intake != nil && !d.account.Stalled() {
		d.discard(math.MaxUint64) // stripes may bring what lies ahead of what has arrived
		return
	}
	before := d.account.Discarded()
	d.discarded(before, d.account.DiscardAll(d.readFrom()), func(upTo uint64) error {
		if d.account.Held() > 0 {
			return d.entry.Release(upTo)
		}
		return d.entry.Reset() // the last segment need not be full, and may be begun again
	})
}

// discarded gives back the room of what was discarded.
func (d *delivery) discarded(before, upTo uint64, release func(upTo uint64) error) {
	if upTo == before {
		return
	}
	if err := release(upTo); err != nil {
		d.log.Error("room of the cache could not be given back", "error", err)
	}
	d.hub.Metrics.discarded.Add(float64(upTo - before))
}

// readFrom returns the offset before which nobody is reading.
func (d *delivery) readFrom() uint64 {
	from := uint64(math.MaxUint64)
	for _, c := range d.children {
		for _, offset := range c.reads {
			from = min(from, offset)
		}
	}
	return from
}

// isStarved reports whether the delivery waits for room that others have.
func (d *delivery) isStarved() bool {
	return d.wanted && d.begin == nil && d.account.Stalled() && d.account.Offset() < d.length()
}
