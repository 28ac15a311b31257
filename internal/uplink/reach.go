package uplink

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// awayPatience is how long no manager may be heard before somebody is told: that a manager restarts, or another
// begins to lead, is no news.
const awayPatience = 5 * time.Second

// reach tells when no stream that was to go on hears a manager any more, and when one hears it again.
type reach struct {
	tell func(since time.Time) // nil tells nobody

	mu      sync.Mutex
	begun   time.Time // since when a manager could have been heard
	last    time.Time // when a manager was heard; zero if none was
	since   time.Time // when a stream broke after which nothing was heard; zero while managers are heard
	told    bool
	timer   *time.Timer
	news    *time.Time // what to tell next; nil if there is no news
	telling bool       // somebody is being told
}

// TellAway has tell called when no manager has been heard for a while, with the time since when; and with the zero time when one
// is heard again. It is called before the uplink is used.
func (u *Uplink) TellAway(tell func(since time.Time)) { u.reach.tell = tell }

// begin notes that from now on a manager ought to be heard.
func (r *reach) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = time.Now()
}

// lost notes that a stream has ended that was to go on.
func (r *reach) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tell == nil || !r.since.IsZero() {
		return
	}
	r.since = time.Now()
	r.timer = time.AfterFunc(awayPatience, r.isAway)
}

func (r *reach) isAway() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.since.IsZero() && !r.told {
		r.told = true
		r.say(r.since)
	}
}

// say has something told, in place of what was not told yet. The callback may take as long as it likes, as when it writes to a
// terminal that stands still: nothing else waits for it. It is called with r.mu held.
func (r *reach) say(since time.Time) {
	r.news = &since
	if !r.telling {
		r.telling = true
		go r.tellAll()
	}
}

// tellAll tells news until there is none.
func (r *reach) tellAll() {
	for {
		r.mu.Lock()
		tell, news := r.tell, r.news
		r.news = nil
		if tell == nil || news == nil {
			r.telling = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		tell(*news)
	}
}

// tellAgain tells once more that no manager is heard, if that was told: the reason has changed.
func (r *reach) tellAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told {
		r.say(r.since)
	}
}

// heard notes that a manager was heard.
func (r *reach) heard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.since.IsZero() {
		return
	}
	r.timer.Stop()
	if r.told {
		r.say(time.Time{})
	}
	r.since, r.told = time.Time{}, false
}

// isSilent reports whether no manager was heard for a while.
func (r *reach) isSilent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.begun) >= awayPatience && time.Since(r.last) >= awayPatience
}

// hasHeard reports whether a manager was ever heard.
func (r *reach) hasHeard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.last.IsZero()
}

// stop has nothing more told.
func (r *reach) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.tell, r.since = nil, time.Time{}
}

// intercept notes everything that is heard on streams.
func (r *reach) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return heardStream{stream, r}, nil
}

type heardStream struct {
	grpc.ClientStream
	reach *reach
}

func (s heardStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil {
		s.reach.heard()
	}
	return err
}
