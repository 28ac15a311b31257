package api

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/identity"
)

// What one member says on all its streams together is taken at a bounded pace: everything beyond that waits in its connections. Each message
// costs this manager something beyond its bytes, and is counted as if it had so many more. A member that reports hundreds of deliveries every second
// needs less, and what is on the way when it has to wait is taken within a second.
const (
	paceCost  = 8 << 10
	paceRate  = rate.Limit(8 << 20)
	paceBurst = 32 << 20
)

// paces are the paces of members.
type paces struct {
	mu sync.Mutex
	of map[identity.ID]*pace
}

// pace is that of a member.
type pace struct {
	*rate.Limiter
	streams int
}

// begin returns the pace of a caller that opens a stream, for until it calls end; nil if it needs none: that is for members, and for what they are as
// relays. Who has closed all streams has the same pace again for as long as that may matter.
func (p *paces) begin(caller identity.ID) (its *pace, end func()) {
	if _, member, relays := caller.Relay(); relays {
		caller = identity.ID{Role: identity.Member, Name: member}
	}
	if caller.Role != identity.Member {
		return nil, func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	its = p.of[caller]
	if its == nil {
		its = &pace{Limiter: rate.NewLimiter(paceRate, paceBurst)}
		if p.of == nil {
			p.of = make(map[identity.ID]*pace)
		}
		p.of[caller] = its
	}
	its.streams++
	return its, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		its.streams--
		if its.streams == 0 {
			time.AfterFunc(2*time.Duration(paceBurst/paceRate)*time.Second, func() { p.forget(caller, its) })
		}
	}
}

// forget forgets a pace that nobody has needed for long.
func (p *paces) forget(caller identity.ID, its *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if its.streams == 0 && p.of[caller] == its && its.Tokens() >= paceBurst-1 {
		delete(p.of, caller)
	}
}

// wait waits until a message may be taken.
func (p *pace) wait(ctx context.Context, message proto.Message) error {
	if p == nil {
		return nil
	}
	return p.WaitN(ctx, min(paceCost+proto.Size(message), paceBurst))
}
