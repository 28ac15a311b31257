package paper_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/services/replicator/paper"
)

// A server that is started again sends another transfer: no client puts its parts together with those of the former one, and each is
// told to receive again.
func TestServerStartedAgain(t *testing.T) {
	c := newCampus(t, 1, 1, link.Shape{Rate: 20 * link.Mbit})
	from := c.file(1_000_000)
	errs := make([]error, len(c.clients))
	got := make([]paper.Received, len(c.clients))
	var running sync.WaitGroup
	for i, host := range c.clients {
		running.Go(func() {
			errs[i] = host.Do(func() (err error) {
				r := paper.Receiver{Place: place, Rules: algo.ReceiverOptions{GivingUp: time.Minute}}
				got[i], err = r.ReceiveFile(t.Context(), filepath.Join(c.dir, host.Name()))
				return err
			})
		})
		c.awaitJoined(host)
	}
	send := func(until uint32) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := c.sender()
		s.Trace = func(w paper.Window) {
			if w.Last > until {
				stop()
			}
		}
		_ = c.server.Do(func() error {
			_, err := s.SendFile(ctx, from)
			return err
		})
	}
	send(200)
	time.Sleep(algo.DefaultSilence) // the least time in which what is old is no longer the network's doing
	send(1)
	send(1) // once more, if the first was lost
	running.Wait()
	for i, err := range errs {
		if !errors.Is(err, paper.ErrBegunAnew) || got[i].Took > 10*time.Second {
			t.Errorf("client %d ended after %v with %v", i, got[i].Took, err)
		}
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) != 1 {
		t.Errorf("beside the source there are %v, %v", left, err)
	}
}

// A window that cannot be sent, as while the interface is down for a moment, is lost as it would be on the way.
func TestInterfaceIsDownForAMoment(t *testing.T) {
	c := newCampus(t, 1, 0, link.Shape{})
	from := c.file(400_000)
	s := c.sender()
	set := func(state string) {
		ip := c.server.Command("ip", "link", "set", "eth0", state)
		if err := ip.Run(); err != nil {
			t.Errorf("%v: %s", err, ip.Output())
		}
	}
	windows := 0
	s.Trace = func(w paper.Window) {
		if windows++; windows == 10 {
			set("down")
		} else if windows == 13 {
			set("up")
		}
	}
	_, got := c.replicate(s, from)
	c.wantAllWhole(from)
	if got[0].Marked == 0 {
		t.Errorf("nothing was lost: %+v", got[0])
	}
}
