package link

import (
	"sync"
	"sync/atomic"
	"testing"
)

// CountBuffers counts the buffers that sent and received bytes pass through, from now until the test ends: none where the kernel
// moves them. Links opened earlier must have ended, and no others may be open.
func CountBuffers(t testing.TB) (toSend, thatCame *atomic.Int64) {
	toSend, thatCame = new(atomic.Int64), new(atomic.Int64)
	count(t, &given, toSend)
	count(t, &taken, thatCame)
	return toSend, thatCame
}

// count empties a pool, and counts what is made for it from then on.
func count(t testing.TB, pool *sync.Pool, made *atomic.Int64) {
	usual := pool.New
	t.Cleanup(func() { *pool = sync.Pool{New: usual} })
	*pool = sync.Pool{New: func() any {
		made.Add(1)
		return usual()
	}}
}

// Living returns how many stripes there are.
func (t *Taking) Living() int { return t.living() }
