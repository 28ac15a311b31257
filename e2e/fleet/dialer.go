package fleet

import (
	"context"
	"net"

	"github.com/groupcast/groupcast/e2e/lab"
)

// dialer dials from a host.
type dialer struct {
	host     *lab.Host
	controls []lab.Control
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.host.Dial(ctx, network, address, d.controls...)
}
