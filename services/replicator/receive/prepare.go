package receive

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// comingEvery is how often who still reads what it has says so.
const comingEvery = 250 * time.Millisecond

// prepare finds out what is there already, which may take as long as it takes to read it, and tells the
// sender meanwhile that somebody comes.
func prepare(ctx context.Context, config Config, mouth *multicast.Socket, heard announced, again bool) (Landing, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader) // for no other JOIN
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	telling, done := context.WithCancel(ctx)
	var ending sync.WaitGroup
	ending.Go(func() {
		ticker := time.NewTicker(comingEvery)
		defer ticker.Stop()
		for number := uint64(0); ; number++ {
			select {
			case <-telling.Done():
				return
			case <-ticker.C:
			}
			j := wire.Joining{Heard: uint16(heard.Size), Have: wire.HaveUnknown, Name: config.Name, LAN: config.LAN}
			_ = mouth.Send(heard.Secret.JoinAs(number, private.PublicKey().Bytes(), j), heard.Sender)
		}
	})
	defer ending.Wait()
	defer done()
	return land(ctx, config, heard.info(), again)
}

// land opens what may be there already, or where it lands.
func land(ctx context.Context, config Config, info object.Info, again bool) (Landing, error) {
	if config.Find != nil && !again && info.Length > 0 {
		found, err := config.Find(ctx, info)
		if found != nil || err != nil {
			return found, err
		}
	}
	return config.Open(ctx, info)
}
