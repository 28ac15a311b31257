package sdk

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// placed notes which delivery has put an object into its place last: of two with one name the one that
// was created later stays, in whatever order they come to their ends.
type placed struct {
	mu     sync.Mutex
	places map[string]*place // by path
}

var errSuperseded = errors.New("a later delivery has put another there")

// place is where an object appears.
type place struct {
	sync.Mutex
	created time.Time // of the latest delivery whose object is there; zero is none of this process
	root    object.Root

	landing landingTurn
}

// mostPlaces is how many are noted: a process that receives for ever under new names forgets those at which nothing lands.
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

// put has an object put into the place, unless another one of a later delivery is there.
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

// errYielded says that a later delivery lands what this one has left lying.
var errYielded = errors.New("a later delivery of the same goes on with it")

// stalled is for how long nothing comes of a delivery until a later one of the same may go on with what is there: its sender
// may have died, which takes longer to be known.
const stalled = 2 * time.Second

// landingTurn is which delivery lands what is to appear at a place: of the same object one at a time does.
type landingTurn struct {
	mu      sync.Mutex
	holder  *receiving
	yielded func(error)
	landing int // how many do, of whatever object
}

func (t *landingTurn) isTaken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.landing > 0
}

// take notes who lands, and returns the context that ends when it has to give that up.
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

// ask has an earlier delivery of which nothing comes give up its turn.
func (t *landingTurn) ask(created time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != nil && t.holder.created.Before(created) && t.holder.still() >= stalled {
		t.yielded(errYielded)
	}
}
