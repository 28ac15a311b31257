package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/wire/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// A delivery in datagrams has links, too. They prove the neighbours' identities, give both ends a
// secret to seal datagrams with, and show that the other end lives.

// Secret returns a secret that only the two ends of the link know.
func (c *Conn) Secret() (secret datagram.Secret, err error) {
	secure, is := c.data.(*tls.Conn)
	if !is {
		return secret, errors.New("a plaintext link has no secret")
	}
	return secretOf(secure)
}

// Secret returns the secret of the link that is asked for: the neighbour may use it as soon as it is welcomed.
func (a *Asked) Secret() (datagram.Secret, error) { return secretOf(a.secure) }

func secretOf(secure *tls.Conn) (secret datagram.Secret, err error) {
	state := secure.ConnectionState()
	exported, err := state.ExportKeyingMaterial(datagram.Label, nil, len(secret))
	if err != nil {
		return secret, fmt.Errorf("secret of a link: %w", err)
	}
	return datagram.Secret(exported), nil
}

// Local returns the address of this end.
func (c *Conn) Local() (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(c.raw.LocalAddr().String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("where a link begins: %w", err)
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

// Remote returns the address of the other end.
func (c *Conn) Remote() (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(c.raw.RemoteAddr().String())
	if err != nil {
		return at, fmt.Errorf("address of a neighbour: %w", err)
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

// unmeasuredRoundTrip stands for a round trip that is not known.
const unmeasuredRoundTrip = 100 * time.Millisecond

// RoundTrip returns what the kernel has measured of the link's round trip.
func (c *Conn) RoundTrip() time.Duration {
	measured := unmeasuredRoundTrip
	_ = c.control(func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Rtt > 0 {
			measured = time.Duration(info.Rtt) * time.Microsecond
		}
		return nil // a guess will do
	})
	return measured
}

// Keep keeps up a link beside which datagrams go, at either end, until it breaks or ctx is done,
// and then closes it. It calls each whenever a child's report may be due.
func Keep(ctx context.Context, conn *Conn, each func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		cancel(conn.listen())
	}()
	defer func() {
		conn.Close()
		<-listened
	}()
	beat, tick := time.NewTicker(heartbeat), time.NewTicker(algo.ReportInterval)
	defer beat.Stop()
	defer tick.Stop()
	for {
		each()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-beat.C:
			if err := conn.Send(wire.Header{Type: wire.Status}.Append(nil)); err != nil {
				return err
			}
		}
	}
}

// listen takes signs of life until the link ends.
func (c *Conn) listen() error {
	for {
		header, err := c.readHeader()
		switch {
		case err != nil:
			return err
		case header.Type == wire.Bye:
			return c.bye(header)
		case header.Type != wire.Status:
			return fmt.Errorf("%w: %v beside datagrams", wire.ErrProtocol, header.Type)
		}
	}
}
