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

func datagrams() wire.Hello { return wire.Hello{Stripes: 1, Datagrams: true} }

// Both ends have the same secret, and every link has another.
func TestSecretIsTheLinks(t *testing.T) {
	n := newNeighbours(t)
	secrets := make(map[datagram.Secret]bool)
	for range 2 {
		parent, child := n.connect(t, datagrams(), 0)
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

// Both ends keep the link for longer than silence is tolerated, and end it together.
func TestLinkIsKept(t *testing.T) {
	parent, child := newNeighbours(t).connect(t, datagrams(), 0)
	if at, err := child.Remote(); err != nil || !at.Addr().IsLoopback() {
		t.Errorf("the parent is at %v: %v", at, err)
	}
	if trip := parent.RoundTrip(); trip <= 0 || trip >= time.Second {
		t.Errorf("a round trip of %v over loopback", trip)
	}
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	begun := time.Now()
	go func() {
		kept <- link.Keep(ctx, child, func() {
			if time.Since(begun) > 2500*time.Millisecond { // silence is tolerated for two seconds
				cancel()
			}
		})
	}()
	if err := link.Keep(t.Context(), parent, func() {}); err == nil || errors.Is(err, link.ErrSilent) {
		t.Errorf("the parent ended by %v", err)
	}
	if err := <-kept; !errors.Is(err, context.Canceled) {
		t.Errorf("the child ended by %v", err)
	}
}

// DATA has no place on such a link.
func TestBytesAreRefusedBesideDatagrams(t *testing.T) {
	parent, child := newNeighbours(t).connect(t, datagrams(), 0)
	if err := parent.Send(wire.Header{Type: wire.Data, Length: 1}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if err := link.Keep(t.Context(), child, func() {}); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("ended by %v", err)
	}
}
