package sdk

import (
	"sync"
	"time"

	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// backlogLength is how many datagrams wait for a program at most: what comes in some 40 ms at a gigabit per second.
const backlogLength = 4096

// backlog is what has come of a stream in datagrams and was not handed on yet. When it is full, the oldest goes: what the network
// brings is taken and reported in time, whatever the program does. Otherwise a program that pauses would look like a network that
// loses everything, and the circuit breaker would keep the stream from it for minutes after it goes on.
type backlog struct {
	mu           sync.Mutex
	changed      sync.Cond
	ring         [backlogLength]unsealed
	first, count int
	isEnded      bool
	until        time.Time // what waits may be taken when it has ended
}

// unsealed is a datagram that is this stream's.
type unsealed struct {
	header  wiredatagram.Header
	payload []byte
}

func newBacklog() *backlog {
	b := &backlog{}
	b.changed.L = &b.mu
	return b
}

// add copies a datagram.
func (b *backlog) add(h wiredatagram.Header, payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == len(b.ring) {
		b.first = (b.first + 1) % len(b.ring)
		b.count--
	}
	one := &b.ring[(b.first+b.count)%len(b.ring)]
	one.header, one.payload = h, append(one.payload[:0], payload...)
	b.count++
	b.changed.Signal()
}

// next takes the oldest, and waits for it; none says that there are no more. What was taken before is overwritten.
func (b *backlog) next(before unsealed) (one unsealed, none bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.count == 0 && !b.isEnded {
		b.changed.Wait()
	}
	if b.count == 0 || b.isEnded && time.Now().After(b.until) {
		return unsealed{}, true
	}
	one = b.ring[b.first]
	b.ring[b.first].payload = before.payload
	b.first = (b.first + 1) % len(b.ring)
	b.count--
	return one, false
}

// end says that nothing is added any more, and that what waits still may be taken for some time.
func (b *backlog) end(grace time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isEnded, b.until = true, time.Now().Add(grace)
	b.changed.Signal()
}
