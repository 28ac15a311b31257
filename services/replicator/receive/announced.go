package receive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"time"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// A larger announcement is waited for when a small one came, until so many small ones have come without any, or for so long: a path that
// does not carry the larger ones is known by that. One alone is lost now and then, and the next may be half a second away.
const (
	smallEnough = 4
	largerWait  = 1800 * time.Millisecond
)

// announced is an announcement, its number, the key that opened it, and all that there are.
type announced struct {
	wire.Announced
	number uint64
	key    []byte
	keys   *keys
}

// gone are sessions that ended before they began, each with the highest number that was heard of it. A session that announces with a
// higher number is there again: what somebody recorded and repeats has none.
type gone map[uint32]uint64

func (g gone) has(a announced) bool {
	last, isGone := g[a.Secret.Session()]
	return isGone && a.number <= last
}

// forGood is the number of a session that does not come again.
const forGood = math.MaxUint64

// secret returns the session's secret under the newest key, which JOINs come under: it may be another than was heard by now.
func (a announced) secret() wire.Secret { return a.Secret.Under(a.keys.newest(time.Now())) }

func (a announced) info() object.Info {
	return object.Info{
		Name: a.Name, Kind: object.Kind(a.Kind), Length: a.Length,
		Mode: fs.FileMode(a.Permissions) & fs.ModePerm, Time: a.Time, Zeros: a.Zeros,
	}
}

// as adds to a JOIN the replica's names, its proof by that public key, and the size of what it has heard.
func (a announced) as(config Config, public []byte, j wire.Joining) wire.Joining {
	j.Heard, j.Name, j.LAN = uint16(a.Size), config.Name, config.LAN
	key := config.NameKey
	if mutual := a.mutual(config); mutual != nil {
		key = mutual
	}
	if len(key) > 0 {
		j.Proof = a.Secret.Prove(key, a.Public, public, j)
	}
	return j
}

// mutual is what a replica and the sender prove themselves to each other with; nil where senders do not.
func (a announced) mutual(config Config) []byte {
	if !config.SenderProves || len(config.NameKey) == 0 {
		return nil
	}
	return a.MutualKey(config.NameKey)
}

// largest is the largest announcement that came of a session, how many small ones did, and until when a larger one is waited for.
type largest struct {
	announced
	small int
	until time.Time
}

// take takes another one, if it is of the same session. What is sent again says nothing of the path.
func (l *largest) take(one announced, now time.Time) {
	switch {
	case l.small == 0:
		*l = largest{one, 1, now.Add(largerWait)}
	case one.Secret.Session() != l.Secret.Session():
	case one.Size > l.Size:
		l.announced = one
	case one.number > l.number:
		l.number = one.number
		l.small++
	}
}

// isKnown reports whether it is the largest that passes.
func (l *largest) isKnown(now time.Time) bool {
	switch {
	case l.small == 0:
		return false
	case l.Size > wire.MinDatagram, l.Size == int(l.Datagram): // there are no others
		return true
	}
	return l.small >= smallEnough || !now.Before(l.until)
}

// listen waits for an announcement that a key of the group opens, and for the largest that passes; not of sessions
// that are known to be gone.
func listen(ctx context.Context, ear *udp.Socket, config Config, keys *keys, gone gone) (announced, error) {
	var best largest
	began := time.Now()
	for {
		if err := ear.SetReadDeadline(time.Now().Add(idle)); err != nil {
			return best.announced, err
		}
		_ = ear.ReceiveOnce(func(datagram []byte, _ netip.AddrPort) {
			if one, ok := announcement(keys, datagram); ok && !gone.has(one) {
				best.take(one, time.Now())
			}
		})
		switch {
		case ctx.Err() != nil:
			return best.announced, context.Cause(ctx)
		case best.isKnown(time.Now()):
			return best.announced, nil
		case best.small == 0 && config.Await > 0 && time.Since(began) > config.Await:
			return best.announced, fmt.Errorf("%w on %s for %v: does it send to %v with this key, and does the switch carry multicast?", ErrNotHeard, config.Place.Interface, config.Await, config.Place.Group)
		}
	}
}

// announcement opens an announcement that can be one.
func announcement(keys *keys, datagram []byte) (announced, bool) {
	head, err := wire.ParseHead(datagram)
	if err != nil || head.Kind != wire.Announce {
		return announced{}, false
	}
	for _, key := range keys.valid(time.Now()) {
		a, err := wire.OpenAnnouncement(key, head, datagram)
		if err == nil && !errors.Is(object.CheckName(a.Name), object.ErrName) {
			return announced{a, head.Number, key, keys}, true
		}
	}
	return announced{}, false
}
