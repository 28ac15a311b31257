package delivery

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"

	limits "golang.org/x/time/rate"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// What one member's deliveries write is remembered for a day, under however many sessions and in however many groups. It may be so many bytes a
// second: some 40 deliveries to a few members. The burst has room for thousands of them, or for a hundred to 5,000 members.
const (
	createCost  = 4 << 10 // of a delivery to nobody, with its end
	createRate  = limits.Limit(256 << 10)
	createBurst = 64 << 20
	// paidFor is for how long it is remembered that a request was paid for: whoever asks again after a failure does so within minutes. paidMost is for
	// how many requests of a caller.
	paidFor  = 10 * time.Minute
	paidMost = 1024
)

// charge refuses what the caller's delivery would write, if that is too much together with its other ones. Operators may do everything.
func (c *creation) charge(bytes int) error {
	if c.caller.Role == identity.Operator {
		return nil
	}
	once := cmp.Or(c.asked.GetRequestId(), c.id)
	if retry, may := c.desk.created.take(c.caller.String(), once, createCost+bytes, time.Now()); !may {
		return &ledger.RateLimited{What: fmt.Sprintf("%s begins deliveries", c.caller), Retry: retry}
	}
	return nil
}

// allowance is how much the requests of each of many callers may write. Each request is paid for once, however often it is planned, or comes again.
type allowance struct {
	perSecond limits.Limit // bytes
	burst     int

	mu sync.Mutex
	of map[string]*purse
}

// purse is what one caller has left, and which requests it has paid for.
type purse struct {
	*limits.Limiter
	paid map[string]payment
}

type payment struct {
	cost int
	at   time.Time
}

func newAllowance(perSecond limits.Limit, burst int) *allowance {
	return &allowance{perSecond: perSecond, burst: burst, of: make(map[string]*purse)}
}

// take has a caller write so many bytes for a request. If they are too many, it returns after how long it may try again.
func (a *allowance) take(caller, request string, cost int, now time.Time) (retry time.Duration, may bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of[caller]
	if p == nil {
		p = &purse{limits.NewLimiter(a.perSecond, a.burst), make(map[string]payment)}
		a.of[caller] = p
	}
	cost = min(cost, a.burst)
	before := p.paid[request]
	if now.Sub(before.at) >= paidFor {
		before = payment{at: now}
	}
	due := max(cost-before.cost, 0)
	if !p.AllowN(now, due) {
		lacking := float64(due) - p.TokensAt(now)
		return time.Duration(lacking/float64(a.perSecond)*float64(time.Second)) + time.Second, false
	}
	if _, known := p.paid[request]; !known && len(p.paid) >= paidMost {
		clear(p.paid)
	}
	p.paid[request] = payment{before.cost + due, before.at}
	return 0, true
}

// forget drops what is known of callers to whom nothing would be refused.
func (a *allowance) forget(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.of, func(_ string, p *purse) bool { return p.TokensAt(now) >= float64(a.burst) })
}
