package sdk

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

func sameNeighbour(a, b *groupv1.Neighbour) bool {
	return identity.Named(a) == identity.Named(b) && slices.Equal(a.GetAddresses(), b.GetAddresses())
}

func parseDeliveryID(text string) (id relay.DeliveryID, err error) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != len(id) {
		return id, fmt.Errorf("delivery id %q is not 32 hexadecimal digits", text)
	}
	return relay.DeliveryID(bytes), nil
}

// backoff are the pauses before a neighbour is dialled again.
type backoff struct{ pause time.Duration }

const (
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
)

func newBackoff() *backoff { return &backoff{firstPause} }

func (b *backoff) next() time.Duration {
	pause := b.pause
	b.pause = min(2*b.pause, longPause)
	return pause
}
