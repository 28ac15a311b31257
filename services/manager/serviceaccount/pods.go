package serviceaccount

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/groupcast/groupcast/internal/identity"
)

// A pod that was let in is let in again as often as certificates are renewed, and also if it is restarted, or tries again.
const (
	podBurst    = 5
	podInterval = 10 * time.Second
)

// podsMost is how many pods are remembered; others are treated like pods that come for the first time.
const podsMost = 16 << 10

// pods are the pods that were let in. Their UIDs are random: whoever makes up tokens does not know them, and so cannot keep these pods from
// being let in again. A new leader knows none.
type pods struct {
	mu    sync.Mutex
	known map[string]pod // by UID
}

type pod struct {
	limit *rate.Limiter
	letIn time.Time // last
}

func newPods() *pods { return &pods{known: make(map[string]pod)} }

// allow reports whether a pod is known and may come again now.
func (p *pods) allow(uid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, known := p.known[uid]
	return known && one.limit.Allow()
}

// letIn remembers a pod for as long as its certificate lives.
func (p *pods) letIn(uid string, now time.Time) {
	if uid == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one, known := p.known[uid]
	if !known {
		p.makeRoom(now)
		if len(p.known) >= podsMost {
			return
		}
		one.limit = rate.NewLimiter(rate.Every(podInterval), podBurst)
	}
	one.letIn = now
	p.known[uid] = one
}

func (p *pods) makeRoom(now time.Time) {
	if len(p.known) >= podsMost {
		maps.DeleteFunc(p.known, func(_ string, one pod) bool { return now.Sub(one.letIn) > identity.CertificateLifetime })
	}
}
