package fleet

import (
	"context"
	"net"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
)

// Dialer dials from a host.
type Dialer struct {
	Host *lab.Host
	// Controls prepare each socket.
	Controls []lab.Control
	// Dialed, if set, is told how long each handshake took.
	Dialed func(address string, took time.Duration)
}

// DialContext connects.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	start := time.Now()
	conn, err := d.Host.Dial(ctx, network, address, d.Controls...)
	if err == nil && d.Dialed != nil {
		d.Dialed(address, time.Since(start))
	}
	return conn, err
}
