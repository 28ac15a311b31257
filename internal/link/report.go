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

// A delivery in datagrams has links, too: they prove who the neighbours are, give both a
// secret to seal datagrams with, and carry the child's reports of what came. Tell is the
// child's side of one, Hear the parent's.

// Secret returns what only the two ends of the link know.
func (c *Conn) Secret() (secret datagram.Secret, err error) {
	secure, is := c.data.(*tls.Conn)
	if !is {
		return secret, errors.New("a plaintext link has no secret")
	}
	state := secure.ConnectionState()
	exported, err := state.ExportKeyingMaterial(datagram.Label, nil, len(secret))
	if err != nil {
		return secret, fmt.Errorf("secret of a link: %w", err)
	}
	return datagram.Secret(exported), nil
}

// Remote returns the address of the other end.
func (c *Conn) Remote() (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(c.raw.RemoteAddr().String())
	if err != nil {
		return at, fmt.Errorf("address of a neighbour: %w", err)
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

// unmeasuredRoundTrip stands for one that is not known.
const unmeasuredRoundTrip = 100 * time.Millisecond

// RoundTrip returns what the kernel has measured of the link's round trip.
func (c *Conn) RoundTrip() time.Duration {
	measured := unmeasuredRoundTrip
	_ = c.control(func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Rtt > 0 {
			measured = time.Duration(info.Rtt) * time.Microsecond
		}
		return nil // a guess does it
	})
	return measured
}

// Tell tells the parent what comes in datagrams, whenever it is time, until the link ends
// or ctx is done. It closes the link.
func Tell(ctx context.Context, conn *Conn, report func() datagram.Report) error {
	return converse(ctx, conn, algo.ReportInterval, func(wire.Header) error { return conn.unexpected() }, func() []byte {
		header := wire.Header{Type: wire.Report, Length: datagram.ReportSize}
		return report().Append(header.Append(nil))
	})
}

// Hear takes what a child reports, until the link ends or ctx is done. It closes the link.
func Hear(ctx context.Context, conn *Conn, hear func(datagram.Report)) error {
	take := func(header wire.Header) error {
		if header.Type != wire.Report {
			return conn.unexpected()
		}
		payload, err := conn.readPayload(header.Length)
		if err != nil {
			return err
		}
		report, err := datagram.ParseReport(payload)
		if err == nil {
			hear(report)
		}
		return err
	}
	return converse(ctx, conn, heartbeat, take, func() []byte { return wire.Header{Type: wire.Status}.Append(nil) })
}

func (c *Conn) unexpected() error {
	return fmt.Errorf("%w: a frame of bytes where datagrams are reported", wire.ErrProtocol)
}

// converse says something at every interval, and takes what the other end says.
func converse(ctx context.Context, conn *Conn, interval time.Duration, take func(wire.Header) error, say func() []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		cancel(conn.listen(take))
	}()
	defer func() {
		conn.Close()
		<-listened
	}()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := conn.Send(say()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// listen takes frames until the link ends.
func (c *Conn) listen(take func(wire.Header) error) error {
	for {
		header, err := c.readHeader()
		if err != nil {
			return err
		}
		switch header.Type {
		case wire.Status:
		case wire.Bye:
			return c.bye(header)
		default:
			err = take(header)
		}
		if err != nil {
			return err
		}
	}
}
