package cli

import (
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// unserved finds out which members get nothing of a stream in datagrams: such a member does not know that it misses anything, and would be
// complete in the end, with all of the stream lost.
type unserved struct {
	sent    uint64
	members map[string]*missing
}

// missing is how much has come to a member, and since when more was sent that did not come.
type missing struct {
	came  uint64
	times int // how often more was sent
	since time.Time
	told  bool
}

const (
	// unservedSpan is how long nothing must have come to a member, and unservedTimes how often more must have been sent meanwhile: a few
	// datagrams may all be lost.
	unservedSpan  = 10 * time.Second
	unservedTimes = 10
)

// look returns the members that are newly found to get nothing, with since when the first of them gets nothing, and those that get
// something again.
func (u *unserved) look(d sdk.Delivery, now time.Time) (none []string, since time.Time, again []string) {
	isMore := d.SentBytes > u.sent
	u.sent = d.SentBytes
	for _, r := range d.Receipts {
		if r.State != sdk.ReceiptReceiving || r.BytesUnknown {
			delete(u.members, r.Member)
			continue
		}
		m := u.members[r.Member]
		if m == nil {
			m = &missing{came: cameTo(r)}
			u.members[r.Member] = m
		}
		switch came := cameTo(r); {
		case came != m.came: // it is less if its program was started anew
			if m.told && came > m.came {
				again = append(again, r.Member)
			}
			*m = missing{came: came}
		case isMore:
			m.miss(now)
		}
		if m.isFound(now) {
			none, m.told = append(none, r.Member), true
			if since.IsZero() || m.since.Before(since) {
				since = m.since
			}
		}
	}
	return none, since, again
}

func (m *missing) miss(now time.Time) {
	if m.times++; m.times == 1 {
		m.since = now
	}
}

func (m *missing) isFound(now time.Time) bool {
	return !m.told && m.times >= unservedTimes && now.Sub(m.since) >= unservedSpan
}

// cameTo returns how much has come to a member, including what was late.
func cameTo(r sdk.Receipt) uint64 {
	if r.Datagrams == nil {
		return r.Bytes
	}
	return r.Bytes + r.Datagrams.Late
}

// sayUnserved says which members get nothing of a stream in datagrams, and which get something again.
func (p *progress) sayUnserved(d sdk.Delivery) {
	if !d.InDatagrams || d.Sealed {
		return
	}
	none, since, again := p.unserved.look(d, time.Now())
	if len(none) > 0 {
		p.say("of what is sent since " + since.Local().Format(time.TimeOnly) + " nothing comes to " + listed(none))
	}
	if len(again) > 0 {
		p.say("datagrams come again to " + listed(again))
	}
}
