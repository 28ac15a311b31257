package roster

import (
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// A file is opened only if all that is missing of it fits beside what other open files still need. That room is promised to it, and is
// asked for by and by. If files took room as they come instead, they could fill the disk together, and none would ever be whole.
// Streams and bundles are promised nothing: they take what is left.

// keepPromise is for how long a file keeps its promise while its client brings nothing, though it is not the gatherer that it waits
// for. A client that was cut off is mostly back by then; but nobody, away or not, keeps the room from others for longer.
const keepPromise = time.Minute

// takesAsItGoes reports whether an upload is promised nothing.
func takesAsItGoes(spec sink.Spec) bool { return spec.Stream || spec.Bundle }

// promise takes the room for all that is missing of a file, or refuses the file. One whose client is queued gets its room when that may
// send: those that may could wait for the room, and it for their places. One that goes on is opened and waits for its room: if its client
// asked again and again instead, what is there of it would be read each time.
func (r *Roster) promise(client *Client, spec sink.Spec, from uint64) (promised uint64, err error) {
	if takesAsItGoes(spec) || client.queued {
		return 0, nil
	}
	rest := spec.Info.Length - from
	left, fits := r.room.drawAll(rest)
	switch {
	case fits:
		return rest, nil
	case from > 0:
		return 0, nil
	}
	return 0, fmt.Errorf("%w: %s are missing in %s: %s are free beside its reserve and what other uploads still need, and %s are needed",
		noroom.Err, bytesize.Short(rest-left), r.Dir, bytesize.Short(left), bytesize.Short(rest))
}

// promiseAll promises room to the files of a client that may send now, as far as there is room. The roster is locked.
func (c *Client) promiseAll() {
	for _, upload := range c.uploads {
		upload.mu.Lock()
		if lacking := upload.unpromised(); lacking > 0 {
			if _, fits := upload.roster.room.drawAll(lacking); fits {
				upload.promised += lacking
			}
		}
		upload.mu.Unlock()
	}
}

// need is what an upload needs of the disk at one moment.
type need struct {
	upload *Upload
	asked  uint64 // is yet to be written of what was asked for
	rest   uint64 // of a file, is yet to be asked for
	holds  bool   // the rest is promised
	claims bool   // the rest may be promised
}

// needs is what all uploads need, in the order in which they were opened.
type needs struct {
	of    []need
	asked uint64    // in all
	at    time.Time // an upload that was opened since is not among them
}

func (r *Roster) needs() needs {
	r.mu.Lock()
	all := needs{at: time.Now()}
	for _, upload := range r.uploads {
		all.of = append(all.of, upload.need(all.at))
	}
	r.mu.Unlock()
	for _, one := range all.of {
		all.asked += one.asked
	}
	slices.SortFunc(all.of, func(a, b need) int { return a.upload.opened.Compare(b.upload.opened) })
	return all
}

// need returns what the upload needs. The roster is locked.
func (u *Upload) need(now time.Time) need {
	u.mu.Lock()
	defer u.mu.Unlock()
	unwritten := u.granted - min(u.granted, u.came)
	if takesAsItGoes(u.spec) {
		return need{upload: u, asked: unwritten + (u.copies()-1)*u.granted}
	}
	waitsForUs := unwritten == 0 && u.client.session != nil && u.client.order.paused != TooMuch
	return need{
		upload: u, asked: unwritten, rest: u.limit - u.granted, holds: u.unpromised() == 0,
		claims: !u.client.queued && (waitsForUs || now.Sub(u.brought) <= keepPromise),
	}
}

// renew promises room anew, of so many bytes that were not asked for, and returns how many it promised. Promises are kept first, those
// of what was opened first before others; a file that the room is not enough for waits, so that others can become whole. To keep a
// promise, half of the reserve may be used: what comes while the disk is looked at may have been counted twice. The roster is locked.
func (r *Roster) renew(needs needs, free uint64) (promised uint64) {
	for _, upload := range r.uploads {
		if !upload.opened.Before(needs.at) {
			promised += upload.taken()
		}
	}
	renew := func(holds bool, reserve uint64) {
		for _, one := range needs.of {
			if one.holds != holds || r.uploads[one.upload.ID] == nil { // it has ended meanwhile
				continue
			}
			fits := one.claims && free >= reserve+promised+one.rest
			if fits {
				promised += one.rest
			}
			one.upload.renew(fits)
		}
	}
	renew(true, r.Reserve/2)
	renew(false, r.Reserve)
	return promised
}

// renew promises the upload all that it was not asked for yet, or nothing.
func (u *Upload) renew(fits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.promised += u.unpromised()
	if !fits {
		u.promised = 0
	}
}

// taken is how much room the upload was promised when it was opened.
func (u *Upload) taken() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if takesAsItGoes(u.spec) || u.unpromised() > 0 {
		return 0
	}
	return u.limit - u.begun
}

// giveBack leaves the room that the upload was promised to others.
func (u *Upload) giveBack() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roster.room.giveBack(u.promised)
	u.promised = 0
}

// unpromised is how much of a file was neither asked for nor promised. The upload is locked.
func (u *Upload) unpromised() uint64 {
	if takesAsItGoes(u.spec) {
		return 0
	}
	return u.limit - u.granted - u.promised
}

// canEnd reports whether there is room for all that is missing of a file.
func (u *Upload) canEnd() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !takesAsItGoes(u.spec) && u.came < u.limit && u.unpromised() == 0
}

// isStranded reports whether all that a file was asked for has come, and there is no room for what is missing.
func (u *Upload) isStranded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.granted <= u.came && u.unpromised() > 0
}

// lacksRoom reports whether the client has uploads under way, and all are files that wait for room. The roster is locked.
func (c *Client) lacksRoom() bool {
	stranded := 0
	for _, upload := range c.uploads {
		if upload.isStranded() {
			stranded++
		}
	}
	return stranded > 0 && stranded == c.active()
}
