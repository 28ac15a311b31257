package sdk

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

func parseDeliveryID(text string) (id relay.DeliveryID, err error) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != len(id) {
		return id, fmt.Errorf("delivery id %q is not 32 hexadecimal digits", text)
	}
	return relay.DeliveryID(bytes), nil
}

// backoff are the pauses before a neighbour is dialled again.
type backoff struct{ pause time.Duration }

func newBackoff() *backoff { return &backoff{link.FirstPause} }

func (b *backoff) next() time.Duration {
	pause := b.pause
	b.pause = min(2*b.pause, link.LongPause)
	return pause
}
