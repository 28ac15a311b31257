package receive

import (
	"bytes"
	"slices"
	"sync"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	// forgetAfter is how long what was sealed under an earlier key is taken once something came under a later one: it may have been
	// overtaken on its way. A member that was put out can speak for as long, and no longer.
	forgetAfter = 2 * time.Second
	// listenAfter is how long a sender is listened for under an earlier key once a later one was told: it goes over to
	// that within 2 s.
	listenAfter = 4 * time.Second
)

// keys are those of the group that were told, the newest first.
type keys struct {
	next func() []byte
	mu   sync.Mutex
	told []told
}

type told struct {
	key []byte
	at  time.Time
}

func newKeys(config Config) *keys {
	return &keys{next: config.Next, told: []told{{config.Key, time.Now()}}}
}

// newest returns the key that was told last.
func (k *keys) newest(now time.Time) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look(now)
	return k.told[0].key
}

// valid returns the keys under which a sender may begin.
func (k *keys) valid(now time.Time) (all [][]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look(now)
	for _, one := range k.told {
		all = append(all, one.key)
	}
	return all
}

// look notes another key, and forgets those that one followed long ago. The caller has the lock.
func (k *keys) look(now time.Time) {
	if k.next == nil {
		return
	}
	if key := k.next(); !bytes.Equal(key, k.told[0].key) {
		k.told = slices.Insert(k.told, 0, told{key, now})
	}
	for i := range k.told[1:] {
		if now.Sub(k.told[i].at) > listenAfter {
			k.told = k.told[:i+1]
			break
		}
	}
}

// ring opens what the sender says to the group, under whichever of the keys it does.
type ring struct {
	keys    *keys
	session wire.Secret
	boxes   []box // the newest first
	at      int   // the newest under which something was heard
}

type box struct {
	*wire.Box
	key   []byte
	until time.Time // of those under which something newer was heard
}

func newRing(heard announced) *ring {
	return &ring{keys: heard.keys, session: heard.Secret, boxes: []box{{Box: heard.Secret.Group(), key: heard.key}}}
}

// open appends the payload of a datagram of which so many bytes after the head are clear.
func (r *ring) open(to []byte, head wire.Head, clear int, datagram []byte) ([]byte, error) {
	if opened, err := r.boxes[r.at].OpenAfter(to, head, clear, datagram); err == nil {
		return opened, nil
	}
	now := time.Now()
	r.update(now)
	for i, one := range r.boxes {
		if i == r.at {
			continue
		}
		if opened, err := one.OpenAfter(to, head, clear, datagram); err == nil {
			r.heard(i, now)
			return opened, nil
		}
	}
	return nil, wire.ErrForged
}

// update adds the key that was told last, and forgets earlier ones when it is time to.
func (r *ring) update(now time.Time) {
	if key := r.keys.newest(now); !bytes.Equal(key, r.boxes[0].key) {
		r.boxes = slices.Insert(r.boxes, 0, box{Box: r.session.Under(key).Group(), key: key})
		r.at++
	}
	r.boxes = slices.DeleteFunc(r.boxes, func(b box) bool { return !b.until.IsZero() && now.After(b.until) })
}

// heard notes that something came under a key: those before it end, if they do not already.
func (r *ring) heard(i int, now time.Time) {
	r.at = min(r.at, i)
	for older := r.at + 1; older < len(r.boxes); older++ {
		if b := &r.boxes[older]; b.until.IsZero() {
			b.until = now.Add(forgetAfter)
		}
	}
}
