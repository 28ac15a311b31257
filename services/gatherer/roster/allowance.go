package roster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// allowance is how many bytes a client may still be asked for, so that it never has more on the disk than it may: what was asked
// for counts as if it had come.
type allowance struct {
	mu    sync.Mutex
	most  uint64 // that it may have on the disk; zero is no bound
	left  uint64
	hoped uint64 // what is left if nothing was counted twice
	drawn uint64 // since the beginning
	short bool   // less was given than was wanted
	// unfinished is how many of the bytes on the disk were of files that had not come whole.
	unfinished uint64
}

// counted is how many bytes a client has on the disk, or was asked for: taken at most, and least if something was counted twice.
type counted struct {
	taken, least uint64
	drawn        uint64 // how many had been drawn when the count began
	unfinished   uint64 // how many are of files that have not come whole
}

// set sets how many bytes the client may have, and how many were counted.
func (a *allowance) set(most uint64, found counted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := found.taken + a.drawn - found.drawn
	a.most, a.left, a.hoped, a.short, a.unfinished = most, most-min(most, taken), most-min(most, found.least), false, found.unfinished
}

// has returns how many of the bytes that are wanted there are.
func (a *allowance) has(want uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.within(want)
}

// draw takes as many of the bytes that are wanted as there are.
func (a *allowance) draw(want uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	want = a.within(want)
	a.take(want)
	return want
}

func (a *allowance) take(bytes uint64) {
	a.left -= min(bytes, a.left)
	a.hoped -= min(bytes, a.hoped)
	a.drawn += bytes
}

// drawnSoFar returns how many bytes were drawn since the beginning.
func (a *allowance) drawnSoFar() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.drawn
}

func (a *allowance) within(want uint64) uint64 {
	if a.most == 0 {
		return want
	}
	a.short = a.short || want > a.left
	return min(want, a.left)
}

// drawAll takes all bytes that are wanted, or none.
func (a *allowance) drawAll(want uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.most > 0 && want > a.left && want <= a.hoped:
		return ErrUncounted
	case a.most > 0 && want > a.left && a.unfinished > 0:
		return fmt.Errorf("%w (%d of these are of files that have not come whole, which stay for a week)", ErrStored, a.unfinished)
	case a.most > 0 && want > a.left:
		return ErrStored
	}
	a.take(want)
	return nil
}

func (a *allowance) isShort() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.short
}

// isStale reports whether what is on the disk has to be counted again.
func (a *allowance) isStale(share policy.Share) bool { return a.isShort() || !a.isOf(share) }

// isOf reports whether the allowance is by a share.
func (a *allowance) isOf(share policy.Share) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most == uint64(share.MaxStored)
}

// hasNewBound reports whether a client may have another number of bytes by now, which makes a difference before it opens anything.
func (c *Client) hasNewBound() bool {
	return !c.allowed.isOf(c.Share) && (len(c.uploads) > 0 || c.allowed.isShort())
}

// count is recount if the present count is of no use. Counting looks at all that a client has on the disk, which takes long with
// many files.
func (r *Roster) count(name string) error {
	r.mu.Lock()
	client := r.clients[name]
	known := client != nil && !client.allowed.isStale(client.Share)
	r.mu.Unlock()
	if known {
		return nil
	}
	return r.recount(name)
}

// recount finds out how much a client has on the disk, and how much it may still have. What cannot be looked at does not count. What comes
// or is asked for meanwhile may count twice: too much is seen then, never too little. A file that fits if nothing did is not refused for that.
func (r *Roster) recount(name string) error {
	r.mu.Lock()
	client := r.clients[name]
	if client == nil {
		r.mu.Unlock()
		return ErrSession
	}
	share, found := client.Share, counted{taken: client.outstanding(), drawn: client.allowed.drawnSoFar()}
	r.mu.Unlock()
	if share.MaxStored > 0 {
		stored, partial, err := r.stored(filepath.Join(r.Dir, name))
		if err != nil {
			r.Log.Warn("not all that a client has on the disk could be counted", "client", name, "error", err)
		}
		found.taken, found.least, found.unfinished = found.taken+stored, stored, partial
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[name] != client {
		return ErrSession
	}
	found.least += client.outstanding()
	client.allowed.set(uint64(share.MaxStored), found)
	return nil
}

// countsMost is how often at most it is counted what a client has before it is told to try again.
const countsMost = 3

// enterCounted is enter once it was counted what a client has, as some of that may have been removed; and again as long as so much comes
// meanwhile that it is not known whether the file fits.
func (r *Roster) enterCounted(peer identity.ID, spec sink.Spec, to sink.Sink) (opened Opened, err error) {
	for range countsMost {
		if err := r.recount(spec.Client); err != nil {
			return Opened{}, err
		}
		if opened, err = r.enter(peer, spec, to); !errors.Is(err, ErrUncounted) {
			break
		}
	}
	return opened, err
}

// outstanding returns how many bytes of a client's uploads count already and are still to come.
func (c *Client) outstanding() (bytes uint64) {
	for _, upload := range c.uploads {
		bytes += upload.outstanding()
	}
	return bytes
}

// hasPart reports whether something is still to come of what the client may have: a stream is asked for the last of that long before it
// sends it, and a file has its part since it was opened. It has none where a stream waits for more and no file is under way, whatever
// quiet streams were asked for.
func (c *Client) hasPart() (has bool) {
	waits := false
	for _, upload := range c.uploads {
		toCome := upload.outstanding() > 0
		if toCome && !upload.spec.Stream {
			return true
		}
		has = has || toCome
		waits = waits || !toCome && upload.spec.Stream && !upload.isWhole()
	}
	return has && !waits
}

// outstanding returns how many bytes of an upload count already and are still to come.
func (u *Upload) outstanding() uint64 {
	if u.spec.Stream {
		return u.asked()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.limit - u.came
}

// admitBytes takes the bytes of a whole file out of the allowance, or refuses the file. A stream takes as it goes.
func (c *Client) admitBytes(spec sink.Spec, from uint64) (limit uint64, err error) {
	if spec.Stream {
		return math.MaxInt64, nil
	}
	if err := c.allowed.drawAll(spec.Info.Length - from); err != nil {
		return 0, err
	}
	return spec.Info.Length, nil
}

// recountAll counts again for clients that wait until they have less on the disk.
func (r *Roster) recountAll() {
	r.recountEach(func(client *Client) bool { return client.allowed.isStale(client.Share) })
}

func (r *Roster) recountEach(due func(*Client) bool) {
	r.mu.Lock()
	var names []string
	for name, client := range r.clients {
		if due(client) {
			names = append(names, name)
		}
	}
	r.mu.Unlock()
	for _, name := range names {
		if r.life.Err() != nil {
			return
		}
		_ = r.recount(name) // it may be gone by now
	}
}

// keepCounted counts again for clients that may have more or less on the disk by a new policy, until ctx is done. Review, which finds
// them, does not wait for the disk.
func (r *Roster) keepCounted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.uncounted:
			r.recountEach((*Client).hasNewBound)
		}
	}
}

// haveCounted has keepCounted look for such clients, unless it is about to.
func (r *Roster) haveCounted() {
	select {
	case r.uncounted <- struct{}{}:
	default:
	}
}
