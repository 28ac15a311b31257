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

// largerWait is how long a larger announcement is waited for when a small one came: a path
// that does not carry the larger ones is known by that.
const largerWait = 30 * time.Millisecond

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

// listen waits for an announcement that a key of the group opens, and for the largest that passes; not of sessions
// that are known to be gone.
func listen(ctx context.Context, ear *udp.Socket, config Config, keys *keys, gone gone) (announced, error) {
	var best announced
	var until time.Time
	if config.Await > 0 {
		until = time.Now().Add(config.Await)
	}
	for {
		wait := time.Now().Add(idle)
		if best.Size > 0 {
			wait = until
		}
		if err := ear.Conn().SetReadDeadline(wait); err != nil {
			return best, err
		}
		_ = ear.ReceiveOnce(func(datagram []byte, _ netip.AddrPort) {
			one, ok := announcement(keys, datagram)
			switch {
			case !ok || gone.has(one) || best.Size > 0 && one.Secret.Session() != best.Secret.Session():
			case best.Size == 0:
				best, until = one, time.Now().Add(largerWait)
			case one.Size > best.Size:
				best = one
			}
		})
		switch {
		case ctx.Err() != nil:
			return best, context.Cause(ctx)
		case best.Size > wire.MinDatagram, best.Size > 0 && !time.Now().Before(until):
			return best, nil
		case best.Size == 0 && !until.IsZero() && time.Now().After(until):
			return best, fmt.Errorf("%w on %s for %v: does it send to %v with this key, and does the switch carry multicast?", ErrNotHeard, config.Place.Interface, config.Await, config.Place.Group)
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
