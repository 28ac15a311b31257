package link

import (
	"sync"
	"sync/atomic"
	"testing"
)

// CountBuffers counts the buffers that bytes to be sent, and bytes that come, pass through from now on, until the test ends: none
// where the kernel moves them. Links that were opened before must have ended, and no others may be.
func CountBuffers(t testing.TB) (toSend, thatCame *atomic.Int64) {
	toSend, thatCame = new(atomic.Int64), new(atomic.Int64)
	count(t, &given, toSend)
	count(t, &taken, thatCame)
	return toSend, thatCame
}

// count has a pool be empty, and counts what is made for it.
func count(t testing.TB, pool *sync.Pool, made *atomic.Int64) {
	usual := pool.New
	t.Cleanup(func() { *pool = sync.Pool{New: usual} })
	*pool = sync.Pool{New: func() any {
		made.Add(1)
		return usual()
	}}
}
