package link_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

func reporting() wire.Hello { return wire.Hello{Stripes: 1, Datagrams: true} }

// Both ends have one secret, another for every link.
func TestSecretIsTheLinks(t *testing.T) {
	n := newNeighbours(t)
	secrets := make(map[datagram.Secret]bool)
	for range 2 {
		parent, child := n.connect(t, reporting(), 0)
		defer parent.Close()
		defer child.Close()
		of, err := parent.Secret()
		if err != nil {
			t.Fatal(err)
		}
		if other, err := child.Secret(); err != nil || other != of {
			t.Errorf("the two ends differ: %v", err)
		}
		secrets[of] = true
	}
	if len(secrets) != 2 || secrets[datagram.Secret{}] {
		t.Error("two links have one secret, or none")
	}
	parent, child := n.connect(t, wire.Hello{Stripes: 1, Plaintext: true}, 0)
	defer parent.Close()
	defer child.Close()
	if _, err := parent.Secret(); err == nil {
		t.Error("a plaintext link has a secret")
	}
}

// What a child tells is heard, until the link ends.
func TestReportsAreHeard(t *testing.T) {
	parent, child := newNeighbours(t).connect(t, reporting(), 0)
	if at, err := child.Remote(); err != nil || !at.Addr().IsLoopback() {
		t.Errorf("the parent is at %v: %v", at, err)
	}
	if trip := parent.RoundTrip(); trip <= 0 || trip >= time.Second {
		t.Errorf("a round trip of %v over loopback", trip)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 1)
	go func() {
		count := uint64(0)
		told <- link.Tell(ctx, child, func() datagram.Report {
			count++
			return datagram.Report{Received: count}
		})
	}()
	var heard []uint64
	err := link.Hear(t.Context(), parent, func(report datagram.Report) {
		if heard = append(heard, report.Received); len(heard) == 3 {
			cancel()
		}
	})
	if err == nil {
		t.Error("the link has ended, and nobody says so")
	}
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("the child ended by %v", err)
	}
	if len(heard) < 3 || heard[0] != 1 || heard[2] != 3 {
		t.Errorf("heard %v", heard)
	}
}

// Bytes have no place on such a link.
func TestBytesAreRefusedAmongReports(t *testing.T) {
	parent, child := newNeighbours(t).connect(t, reporting(), 0)
	if err := parent.Send(wire.Header{Type: wire.Data, Length: 1}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	err := link.Tell(t.Context(), child, func() datagram.Report { return datagram.Report{} })
	if !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("ended by %v", err)
	}
}
