package sdk

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// placed notes which delivery has put an object into its place last. Of two objects with the same name, that of the delivery that was
// created later stays, in whatever order the two end.
type placed struct {
	mu     sync.Mutex
	places map[string]*place // by path
}

var errSuperseded = errors.New("a later delivery has put another there")

// place is where an object appears.
type place struct {
	sync.Mutex
	created time.Time // of the latest delivery whose object is there; zero if this process has put none there
	root    object.Root

	landing landingTurn
}

// mostPlaces is how many are noted: beyond that, places at which nothing lands are forgotten, as a process may receive new names for ever.
const mostPlaces = 4096

func (p *placed) at(path string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil {
		p.places = make(map[string]*place)
	}
	if p.places[path] == nil {
		if len(p.places) >= mostPlaces {
			maps.DeleteFunc(p.places, func(_ string, place *place) bool { return !place.landing.isTaken() })
		}
		p.places[path] = &place{}
	}
	return p.places[path]
}

// put has an object put into the place, unless a later delivery has put another one there.
func (p *place) put(created time.Time, root object.Root, put func() error) error {
	p.Lock()
	defer p.Unlock()
	if created.Before(p.created) && root != p.root {
		return errSuperseded
	}
	err := put()
	if err == nil {
		p.note(created, root)
	}
	return err
}

// found notes that the object of a delivery is there already.
func (p *place) found(created time.Time, root object.Root) {
	p.Lock()
	defer p.Unlock()
	p.note(created, root)
}

func (p *place) note(created time.Time, root object.Root) {
	p.root = root
	if created.After(p.created) {
		p.created = created
	}
}

// errYielded says that a later delivery goes on with what this one has stopped landing.
var errYielded = errors.New("a later delivery of the same goes on with it")

// stalled is how long nothing must have come of a delivery before a later one of the same object may go on with what is there: the sender
// may have died, which takes longer to become known.
const stalled = 2 * time.Second

// landingTurn notes which delivery is landing the object of a place: of the same object only one does at a time.
type landingTurn struct {
	mu      sync.Mutex
	holder  *receiving
	yielded func(error)
	landing int                      // how many deliveries land something, of whatever object
	begins  map[*receiving]time.Time // those that begin to land, since when: for long if much is there that they have to read
}

// begin notes that a delivery begins to land, until ended is called.
func (t *landingTurn) begin(r *receiving) (ended func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begins == nil {
		t.begins = make(map[*receiving]time.Time)
	}
	t.begins[r] = time.Now()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.begins, r)
	}
}

func (t *landingTurn) isTaken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.landing > 0
}

// take notes that a delivery lands, and returns a context that ends when it has to give way.
func (t *landingTurn) take(ctx context.Context, r *receiving) (taking context.Context, release func()) {
	taking, yield := context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder, t.yielded = r, yield
	t.landing++
	return taking, func() {
		yield(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.landing--
		if t.holder == r {
			t.holder = nil
		}
	}
}

// ask reports whether the delivery that has its turn gets on. If nothing comes of it, and it is an earlier one, it has to give up its turn.
// Of one that another process lands nothing is known.
func (t *landingTurn) ask(created time.Time) (getsOn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, since := range t.begins {
		getsOn = getsOn || time.Since(since) >= stalled // who cannot have its turn is told so at once
	}
	if t.holder == nil {
		return getsOn
	}
	stands := t.holder.still() >= stalled
	if stands && t.holder.created.Before(created) {
		t.yielded(errYielded)
	}
	return getsOn || !stands || t.holder.has() == t.holder.info.Length
}
