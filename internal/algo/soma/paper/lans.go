package paper

import (
	"net/netip"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
)

// lans are the LANs that take part, and which of them have confirmed the window.
type lans struct {
	patience time.Duration
	own      netip.Prefix // the sender's, if it is known
	bits     int          // by which another LAN that was not named is known; 0 has no strangers
	list     []*lan
	dropped  []netip.Prefix // were named, and were silent for too long
}

// lan is one LAN that takes part.
type lan struct {
	prefix    netip.Prefix
	heard     time.Time
	windows   int // sent since then
	confirmed bool
}

// unheard is how many windows in a row a LAN must have left without a word to be dropped. A
// server that was frozen has heard nobody for long, and has sent nothing either.
const unheard = 3

// isOwing reports whether silence counts.
func (l *lan) isOwing() bool { return l.windows >= unheard }

func (l *lan) hear(now time.Time) { l.heard, l.windows = now, 0 }

func newLANs(options SenderOptions) lans {
	l := lans{patience: options.Patience, own: options.LAN.Masked(), bits: options.StrangerBits}
	for _, prefix := range options.LANs {
		l.list = append(l.list, &lan{prefix: prefix.Masked()})
	}
	return l
}

// begin is from when on silence counts.
func (l *lans) begin(now time.Time) {
	for _, one := range l.list {
		one.heard = now
	}
	if len(l.list) == 0 {
		// Somebody has to be heard, or there is nobody: this entry is for them.
		l.list = append(l.list, &lan{heard: now})
	}
}

// of finds the LAN of a client, which has been heard now. One that takes part from now on is
// new: the paper's figure 9 has clients that "join the file transfer approximately in the
// middle of the transfer".
func (l *lans) of(client netip.Addr, now time.Time) (prefix netip.Prefix, isNew, known bool) {
	for _, one := range l.list {
		if one.prefix.Contains(client) {
			one.hear(now)
			return one.prefix, false, true
		}
	}
	prefix, known = l.stranger(client)
	if !known {
		return prefix, false, false
	}
	l.list = slices.DeleteFunc(l.list, func(one *lan) bool { return !one.prefix.IsValid() })
	l.dropped = slices.DeleteFunc(l.dropped, func(one netip.Prefix) bool { return one == prefix })
	l.list = append(l.list, &lan{prefix: prefix, heard: now})
	return prefix, true, true
}

// stranger is the LAN of a client that is in none of those that take part: one that was
// dropped, or one that nobody has named. Clients keep silent for an ACK from their interface's
// subnet, which is known of the sender's own LAN alone.
func (l *lans) stranger(client netip.Addr) (prefix netip.Prefix, known bool) {
	for _, prefix := range l.dropped {
		if prefix.Contains(client) {
			return prefix, true
		}
	}
	if l.bits == 0 {
		return prefix, false
	}
	if l.own.Contains(client) {
		return l.own, true
	}
	prefix, err := client.Prefix(l.bits)
	return prefix, err == nil
}

// confirm notes an ACK.
func (l *lans) confirm(prefix netip.Prefix) {
	for _, one := range l.list {
		if one.prefix == prefix {
			one.confirmed = true
		}
	}
}

// expect begins another window. A LAN that confirmed the last one owed nothing until now.
func (l *lans) expect(now time.Time) {
	for _, one := range l.list {
		if one.confirmed {
			one.hear(now)
		}
		one.confirmed = false
		one.windows++
	}
}

// confirmed reports whether the server has "one ACK for each participating LAN".
func (l *lans) confirmed() bool {
	return !slices.ContainsFunc(l.list, func(one *lan) bool { return !one.confirmed })
}

// silent is when the first LAN will have been silent for too long.
func (l *lans) silent() (at time.Time) {
	for _, one := range l.list {
		if one.isOwing() {
			at = moment.Soonest(at, one.heard.Add(l.patience))
		}
	}
	return at
}

// drop removes the LANs that have been silent for too long.
func (l *lans) drop(now time.Time) (gone []netip.Prefix) {
	l.list = slices.DeleteFunc(l.list, func(one *lan) bool {
		isSilent := one.isOwing() && !now.Before(one.heard.Add(l.patience))
		if isSilent && one.prefix.IsValid() {
			gone = append(gone, one.prefix)
		}
		return isSilent
	})
	l.dropped = append(l.dropped, gone...)
	return gone
}

func (l *lans) none() bool { return len(l.list) == 0 }
