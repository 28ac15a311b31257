package roster

import (
	"context"
	"sync"
)

// readMost is for how many uploads at once the gatherer reads what is there already, and readOwn for how many of one client: a client
// can have large files read for as long as it likes, and others must not wait for that.
const (
	readMost = 8
	readOwn  = readMost / 2
)

// readers gives turns to openings that read what is on disk already. Those of streams, which read next to nothing, have turns of their own.
type readers struct {
	all chan struct{}
	mu  sync.Mutex
	own map[string]*ownReaders // by client
}

type ownReaders struct {
	reading chan struct{}
	count   int // that read or wait
}

func newReaders() *readers {
	return &readers{all: make(chan struct{}, readMost), own: make(map[string]*ownReaders)}
}

// turn waits until something of a client's may be read, until done is called.
func (r *readers) turn(ctx context.Context, client string) (done func(), err error) {
	own := r.enter(client)
	leave := func() { r.leave(client, own) }
	if err := take(ctx, own.reading); err != nil {
		leave()
		return nil, err
	}
	if err := take(ctx, r.all); err != nil {
		<-own.reading
		leave()
		return nil, err
	}
	return func() {
		<-r.all
		<-own.reading
		leave()
	}, nil
}

func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *readers) enter(client string) *ownReaders {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.own[client]
	if own == nil {
		own = &ownReaders{reading: make(chan struct{}, readOwn)}
		r.own[client] = own
	}
	own.count++
	return own
}

func (r *readers) leave(client string, own *ownReaders) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.count--; own.count == 0 {
		delete(r.own, client)
	}
}

// reading returns the clients that wait until something is opened or looked for: what is there already is read, which may take long. The
// roster is locked.
func (r *Roster) reading() map[string]bool {
	clients := make(map[string]bool)
	for at, o := range r.openings {
		if o.ended.IsZero() {
			clients[at.client] = true
		}
	}
	for _, readers := range []*readers{r.readers, r.streaming} {
		readers.mu.Lock()
		for client := range readers.own {
			clients[client] = true
		}
		readers.mu.Unlock()
	}
	return clients
}
