package roster

import (
	"math"
	"sync"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// allowance is how many bytes may yet be asked of a client, so that it has not more on the
// disk than it may: those that were asked for count as if they had come.
type allowance struct {
	mu    sync.Mutex
	most  uint64 // that it may have in all; zero is no bound
	left  uint64
	short bool // less was given than was wanted
}

// set says how many there are.
func (a *allowance) set(most, taken uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most, a.left, a.short = most, most-min(most, taken), false
}

// draw takes some, as many as there are.
func (a *allowance) draw(want uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most == 0 {
		return want
	}
	a.short = a.short || want > a.left
	want = min(want, a.left)
	a.left -= want
	return want
}

// drawAll takes some, or none.
func (a *allowance) drawAll(want uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most > 0 && want > a.left {
		return false
	}
	a.left -= min(want, a.left)
	return true
}

func (a *allowance) isShort() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.short
}

// isStale reports whether what is there is to be counted again.
func (a *allowance) isStale(share policy.Share) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.short || a.most != uint64(share.MaxStored)
}

// count is recount where that is not known. All that a client has on the disk is looked at then, which takes long
// where that are many files.
func (r *Roster) count(name string, share policy.Share) error {
	r.mu.Lock()
	client := r.clients[name]
	known := client != nil && !client.allowed.isStale(share)
	r.mu.Unlock()
	if known {
		return nil
	}
	return r.recount(name, share)
}

// recount finds out what a client has on the disk, and what it may yet have.
func (r *Roster) recount(name string, share policy.Share) error {
	var stored uint64
	if share.MaxStored > 0 {
		var err error
		if stored, err = r.Stored(name); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	client := r.clients[name]
	if client == nil {
		return ErrSession
	}
	for _, upload := range client.uploads {
		stored += upload.outstanding()
	}
	client.allowed.set(uint64(share.MaxStored), stored)
	return nil
}

// outstanding is how many bytes can come of an upload that were counted already.
func (u *Upload) outstanding() uint64 {
	if u.spec.Stream {
		return u.asked()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.limit - u.came
}

// admitBytes has a file come whole or not at all. Of a stream there may be more as long as
// there is room.
func (c *Client) admitBytes(spec sink.Spec, from uint64) (limit uint64, err error) {
	if spec.Stream {
		return math.MaxInt64, nil
	}
	if !c.allowed.drawAll(spec.Info.Length - from) {
		return 0, ErrStored
	}
	return spec.Info.Length, nil
}

// recountAll looks at clients again that wait until there is less of theirs on the disk.
func (r *Roster) recountAll() {
	r.mu.Lock()
	waiting := make(map[string]policy.Share)
	for name, client := range r.clients {
		if client.allowed.isStale(client.Share) {
			waiting[name] = client.Share
		}
	}
	r.mu.Unlock()
	for name, share := range waiting {
		if err := r.recount(name, share); err != nil {
			r.Log.Debug("it is not known what a client has on the disk", "client", name, "error", err)
		}
	}
}
