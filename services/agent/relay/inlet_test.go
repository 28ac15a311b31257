package relay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/services/agent/cache"
)

// Whoever seizes the place gets it, though others that wait for it may have it first: they are ended as well.
func TestSeizedInletIsHadByNobodyElse(t *testing.T) {
	for round := range 200 {
		life, end := context.WithCancel(t.Context())
		in := newInlet(life)
		link, release, err := in.take(life)
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() {
			<-link.Done()
			release()
		})
		for range 3 {
			running.Go(func() {
				if offer, release, err := in.take(life); err == nil {
					<-offer.Done()
					release()
				}
			})
		}
		waiting, cancel := context.WithTimeout(life, 10*time.Second)
		release, err = in.seize(waiting)
		cancel()
		if err != nil {
			end()
			t.Fatalf("round %d: %v: another link has the place, and nothing ends it", round, err)
		}
		release()
		end()
		running.Wait()
	}
}

// nowhere counts the parents that would be dialled.
type nowhere struct{ dialled atomic.Int32 }

func (n *nowhere) DialContext(context.Context, string, string) (net.Conn, error) {
	n.dialled.Add(1)
	return nil, errors.New("nowhere")
}

// newHub returns a hub that runs without a listener, with a cache of 1 MiB.
func newHub(t *testing.T, dialer link.Dialer) *Hub {
	store, err := cache.Open(t.TempDir(), 1<<20, cache.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	h := New(Env{Log: slog.New(slog.DiscardHandler), Cache: store, Contacts: link.NewContacts(dialer, identity.TLS{}, link.AgentsKeep), Metrics: NewMetrics(), Now: time.Now})
	h.running = t.Context()
	t.Cleanup(h.Contacts.Close)
	return h
}

// A parent that another has replaced, between when it was looked up and when its link could begin, is not dialled.
func TestParentOfAMomentAgoIsNotDialled(t *testing.T) {
	dials := &nowhere{}
	h := newHub(t, dials)
	parent := func(name string) *groupv1.Neighbour {
		return &groupv1.Neighbour{Name: name, Role: string(identity.Agent), Addresses: []string{name + ".invalid:1"}}
	}
	assignment := &groupv1.Assignment{Delivery: strings.Repeat("0a", 16), TreeVersion: 2, Parent: parent("next")}
	d, err := newDelivery(h, assignment)
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	d.update(func() { d.wanted = true })
	f := newFlow(h, assignment)
	defer f.stop()
	for what, ask := range map[string]func(*groupv1.Neighbour) error{"bytes": d.askParent, "datagrams": f.askParent} {
		if err := ask(parent("earlier")); err == nil || dials.dialled.Load() > 0 {
			t.Errorf("%s: %v, and %d dialled", what, err, dials.dialled.Load())
		}
		if err := ask(parent("next")); err == nil || dials.dialled.Swap(0) == 0 {
			t.Errorf("%s: the parent that there is was not dialled: %v", what, err)
		}
	}
}
