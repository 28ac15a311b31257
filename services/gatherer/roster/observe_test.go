package roster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/controller"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// fullLink is a plant of one client that brings what its link gives.
type fullLink struct {
	*roster.Roster
	rate   float64 // bytes per second
	rounds int
	seen   time.Time
}

// Review is held up now and then, as when others have the roster, or the processor.
func (l *fullLink) Review() {
	if l.rounds++; l.rounds%10 == 0 {
		time.Sleep(200 * time.Millisecond)
	}
	l.Roster.Review()
}

func (l *fullLink) Observe() (window.Facts, time.Time) {
	now := time.Now()
	l.Arrive("alice", uint64(l.rate*now.Sub(l.seen).Seconds()))
	l.seen = now
	return l.Roster.Observe()
}

// However long a round waits before it looks, it sees no more than the link gives: the next would see less, as if others had come.
func TestRoundThatIsHeldUpSeesWhatTheLinkGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, policy.Policy{}, nil)
		f.attach("alice")
		plant := &fullLink{Roster: f.Roster, rate: 1e6, seen: time.Now()}
		control, err := controller.New(window.Default, window.Options{}, plant, func() window.Rate { return 0 })
		f.must(err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		rounds := 0
		f.must(control.Run(ctx, func(round controller.Round) {
			if got := float64(round.Received) / plant.rate; got < .95 || got > 1.05 {
				t.Errorf("in round %d %.2f of what the link gives is received", rounds, got)
			}
			if rounds++; rounds == 25 {
				stop()
			}
		}))
	})
}

// On a gatherer whose interface takes jumbo frames, a client's segments are what its own network carries. Where this end announces less
// than Ethernet has, they have no more than that, and within a machine what the loopback has.
func TestSegmentsAreThoseThatCome(t *testing.T) {
	for name, one := range map[string]struct{ announced, came, want int }{
		"Ethernet":                       {1448, 1448, 1448},
		"Ethernet, nothing has come":     {1448, 536, 1448},
		"Ethernet without timestamps":    {1460, 1460, 1460},
		"a tunnel":                       {1348, 1348, 1348},
		"jumbo frames":                   {8948, 8948, 8948},
		"jumbo frames at this end alone": {8948, 1448, 1448},
		"jumbo frames, only lines came":  {8948, 88, 1448},
		"the loopback":                   {65483, 21888, 65483},
	} {
		if got := roster.Segment(&unix.TCPInfo{Advmss: uint32(one.announced), Rcv_mss: uint32(one.came)}); got != one.want {
			t.Errorf("%s: %d bytes, want %d", name, got, one.want)
		}
	}
}
