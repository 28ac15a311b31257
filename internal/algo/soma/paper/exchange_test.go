package paper_test

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/soma/model"
	"github.com/groupcast/groupcast/internal/algo/soma/paper"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

const (
	fastLAN = 100e6
	slowLAN = 1.55e6
)

var correcting = paper.ReceiverOptions{ErrorCorrection: true}

// options has all of a network's first LANs take part.
func options(lans int) paper.SenderOptions {
	o := paper.SenderOptions{ErrorCorrection: true}
	for lan := range lans {
		o.LANs = append(o.LANs, subnet(lan))
	}
	return o
}

// "The above procedure is repeated until the file is completely transferred." (§III-A)
func TestFileIsTransferred(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 1024, 200_000} {
		n := newNetwork(t, 1, fastLAN)
		n.serve(options(1), content(size), 512)
		n.join(0, 4, correcting)
		if !n.run(time.Minute) || n.server.reason != paper.Done {
			t.Errorf("%d bytes: the server ended with %q", size, n.server.reason)
		}
		n.wantAllWhole()
	}
}

// A network that loses, doubles and reorders: every client has the file, whatever it does. The
// standing oracle of C35, C36 and C40 for this profile.
func TestEveryClientHasTheFile(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { wantFile(t, r) })
}

func FuzzExchange(f *testing.F) {
	f.Fuzz(func(t *testing.T, drawn []byte) { rapid.MakeFuzz(func(r *rapid.T) { wantFile(t, r) })(t, drawn) })
}

func wantFile(t *testing.T, r *rapid.T) {
	n := newNetwork(t, rapid.Uint64().Draw(r, "seed"), fastLAN, slowLAN)
	n.loss = rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.05, 0.2}).Draw(r, "loss")
	n.twice = rapid.SampledFrom([]float64{0, 0.05}).Draw(r, "twice")
	n.swap = rapid.SampledFrom([]float64{0, 0.05}).Draw(r, "swap")
	n.lans[1].queue = rapid.SampledFrom([]int{0, 20, 100}).Draw(r, "queue")
	size := rapid.IntRange(0, 60_000).Draw(r, "size")
	n.serve(options(2), content(size), rapid.SampledFrom([]int{100, 512, 1400}).Draw(r, "payload"))
	n.join(0, rapid.IntRange(1, 4).Draw(r, "clients"), correcting)
	n.join(1, rapid.IntRange(1, 4).Draw(r, "slow clients"), correcting)
	if !n.run(30 * time.Minute) {
		r.Fatalf("not over after 30 minutes; the server: %q", n.server.reason)
	}
	for i, c := range n.clients {
		// A member that has heard nothing at all does not know that there is something.
		if !c.Server().IsValid() {
			continue
		}
		if c.reason == paper.SenderLost && n.loss == 0.2 {
			continue // so many requests in a row were lost that the server went home
		}
		if c.reason != paper.Done || string(c.got) != string(n.server.file) {
			r.Fatalf("client %d of a network with loss %v ended with %q, %d missing, %d of %d bytes", i, n.loss, c.reason, c.Missing(), len(c.got), size)
		}
	}
}

// Table I: "W_T values obtained theoretically and by simulation". Here the simulation has the
// machines in it, and clients with ARTPs drawn, N_C2 slow LANs behind each other.
func TestTableIBySimulation(t *testing.T) {
	for n2 := 1; n2 <= 4; n2++ {
		for timeout := 80 * ms; timeout <= 120*ms; timeout += 10 * ms {
			rates := []float64{fastLAN}
			for range n2 {
				rates = append(rates, slowLAN)
			}
			n := newNetwork(t, 1, rates...)
			o := options(n2 + 1)
			o.Flow.Timeout = timeout
			n.serve(o, content(2_500_000), 512)
			for lan := range rates {
				n.join(lan, 4, correcting)
			}
			if !n.run(time.Minute) {
				t.Fatal("not over after a minute")
			}
			path := model.Path{Packets: model.Paper, C1: fastLAN, C2: slowLAN, N1: 1, N2: n2}
			want, got := path.SteadyWindow(timeout, 120*us), n.confirmedWindow()
			if got < want-1 || got > want+1 {
				t.Errorf("N_C2 = %d, dflt_Tout = %v: W_T is %d, theory %d", n2, timeout, got, want)
			}
		}
	}
}

// confirmedWindow is the window "just before congestion is detected" (§IV-B), as it is most of the time:
// the greatest that was confirmed with the least timeout, in the second half of the transfer.
func (n *network) confirmedWindow() int {
	counts := map[int]int{}
	for i := len(n.windows) / 2; i+1 < len(n.windows); i++ {
		if n.windows[i+1].Window < n.windows[i].Window {
			counts[n.windows[i].Window-1]++
		}
	}
	most := 0
	for w, count := range counts {
		if count > counts[most] {
			most = w
		}
	}
	return most
}

// "Irrespective of the dflt_Tout value, the server throughput slightly oscillates around 1.55
// Mbps" (§VI), figure 7.
func TestThroughputIsThatOfTheSlowestLAN(t *testing.T) {
	for _, timeout := range []time.Duration{80 * ms, 100 * ms, 120 * ms} {
		n := newNetwork(t, 1, fastLAN, slowLAN)
		o := options(2)
		o.Flow.Timeout = timeout
		n.serve(o, content(4_000_000), 512)
		n.join(0, 4, correcting)
		n.join(1, 4, correcting)
		if !n.run(time.Minute) {
			t.Fatal("not over after a minute")
		}
		half, last := len(n.windows)/2, len(n.windows)-1
		bits := float64(n.windows[last].First-n.windows[half].First) * 523 * 8
		rate := bits / (n.sentAt[last] - n.sentAt[half]).Seconds()
		if math.Abs(rate-slowLAN) > 0.03*slowLAN {
			t.Errorf("with %v it is %.3f Mbit/s", timeout, rate/1e6)
		}
	}
}

// Figure 8: "In this scenario the window size reaches its maximum value limited by the protocol
// (W=100) and the maximum experimental throughput […] approximately matches the theoretical result"
func TestUncongestedLANHasTheGreatestWindow(t *testing.T) {
	n := newNetwork(t, 1, fastLAN)
	n.serve(options(1), content(10_000_000), 512)
	n.join(0, 4, correcting)
	if !n.run(time.Minute) {
		t.Fatal("not over after a minute")
	}
	half, last := len(n.windows)/2, len(n.windows)-1
	for _, w := range n.windows[100:] {
		if w.Window != 100 {
			t.Fatalf("a window of %d", w.Window)
		}
	}
	bits := float64(n.windows[last].First-n.windows[half].First) * 523 * 8
	rate := bits / (n.sentAt[last] - n.sentAt[half]).Seconds()
	want := float64(model.Paper.MaximumThroughput(100, fastLAN, 120*us))
	if math.Abs(rate-want) > 0.01*want {
		t.Errorf("%.2f Mbit/s, equation (17) says %.2f", rate/1e6, want/1e6)
	}
}

// Figure 9: "At the beginning only wired clients participate […]. But approximately in the middle
// of the transfer, the wireless terminals join the file transfer." The window comes down to where it would have risen to.
func TestSlowLANJoinsInTheMiddle(t *testing.T) {
	n := newNetwork(t, 1, fastLAN, slowLAN)
	o := options(1)
	o.StrangerBits, o.Flow.Timeout = 24, 80*ms
	n.lans[1].queue = 200
	n.serve(o, content(4_000_000), 512)
	n.join(0, 4, correcting)
	n.join(1, 4, correcting)
	for i := range n.clients[4:] {
		n.cutOff(4+i, 0, 200*ms)
	}
	if !n.run(10*time.Minute) || n.server.reason != paper.Done {
		t.Fatalf("the server ended with %q", n.server.reason)
	}
	n.wantAllWhole()
	if len(n.server.joined) != 1 || n.server.joined[0] != subnet(1) {
		t.Errorf("joined: %v", n.server.joined)
	}
	greatest := 0
	for i, w := range n.windows {
		if n.sentAt[i] < 200*ms {
			greatest = max(greatest, w.Window)
		}
	}
	want := model.Path{Packets: model.Paper, C1: fastLAN, C2: slowLAN, N1: 1, N2: 1}.SteadyWindow(80*ms, 120*us)
	if got := n.confirmedWindow(); greatest < 2*want || got < want-1 || got > want+1 {
		t.Errorf("the window was %d before, and W_T is %d, theory %d", greatest, got, want)
	}
	for i := 0; i < len(n.windows); i += 10 {
		t.Logf("%8v window %d timeout %v", n.sentAt[i], n.windows[i].Window, n.windows[i].Timeout)
	}
}

// "only one ACK for each participant LAN is sent to the server, independently of the number of
// clients" (§III-D): as long as an ACK's way through the LAN is short beside ARTP. At most 2.
func TestOneACKForEachLAN(t *testing.T) {
	n := newNetwork(t, 1, fastLAN, fastLAN)
	n.serve(options(2), content(1_000_000), 512)
	n.join(0, 64, correcting)
	n.join(1, 64, correcting)
	if !n.run(time.Minute) {
		t.Fatal("not over after a minute")
	}
	n.wantAllWhole()
	perWindow := float64(n.multicasts[wire.ACK]) / float64(len(n.windows)) / 2
	t.Logf("%d windows, %.2f ACKs for each and LAN", len(n.windows), perWindow)
	if perWindow < 1 || perWindow > 2 {
		t.Errorf("%.2f ACKs for each window and LAN", perWindow)
	}
	if n.unicasts[wire.NACK] != 0 {
		t.Errorf("%d NACKs where nothing was lost", n.unicasts[wire.NACK])
	}
}

// C39: a receiver that was cut off in the middle gets what it lacks in the second phase; no other
// has to wait for it.
func TestCutOffClientIsRepaired(t *testing.T) {
	n := newNetwork(t, 1, fastLAN)
	n.serve(options(1), content(3_000_000), 512)
	n.join(0, 3, correcting)
	n.cutOff(1, 100*ms, 150*ms)
	n.cutOff(2, 100*ms, 400*ms) // beyond the end
	if !n.run(time.Minute) {
		t.Fatal("not over after a minute")
	}
	n.wantAllWhole()
	if n.clients[1].marks == 0 || n.clients[0].marks != 0 {
		t.Errorf("marks: %d, %d, %d", n.clients[0].marks, n.clients[1].marks, n.clients[2].marks)
	}
}

// C61: a server that dies leaves nobody waiting forever.
func TestServerDies(t *testing.T) {
	n := newNetwork(t, 1, fastLAN)
	n.serve(options(1), content(3_000_000), 512)
	n.join(0, 2, correcting)
	n.after(100*ms, func() { n.server.Sender = paper.NewSender(options(1)); n.server.reason = paper.Done })
	if !n.run(2 * time.Minute) {
		t.Fatal("not over after two minutes")
	}
	for i, c := range n.clients {
		if c.reason != paper.SenderLost {
			t.Errorf("client %d ended with %q", i, c.reason)
		}
	}
}

// C59: a LAN that multicast does not reach is found, within what the sender is told.
func TestLANThatHearsNothing(t *testing.T) {
	n := newNetwork(t, 1, fastLAN, fastLAN)
	n.serve(options(2), content(1_000_000), 512)
	n.join(0, 2, correcting)
	if !n.run(time.Minute) || n.server.reason != paper.Done {
		t.Fatalf("the server ended with %q", n.server.reason)
	}
	n.wantAllWhole()
	if want := []netip.Prefix{subnet(1)}; fmt.Sprint(n.server.dropped) != fmt.Sprint(want) {
		t.Errorf("dropped: %v, want %v", n.server.dropped, want)
	}
	alone := newNetwork(t, 1, fastLAN)
	alone.serve(options(1), content(1_000_000), 512)
	if alone.run(6 * time.Second); alone.server.reason != paper.NobodyListens {
		t.Errorf("with nobody there it ended with %q", alone.server.reason)
	}
}

// C38: a network that loses whatever is larger than it carries: over in the end, and nobody
// believes to have the file.
func TestBlackHole(t *testing.T) {
	n := newNetwork(t, 1, fastLAN)
	n.mtu = 500
	n.serve(options(1), content(20_000), 512)
	n.join(0, 2, correcting)
	if !n.run(2 * time.Minute) {
		t.Fatal("not over after two minutes")
	}
	for i, c := range n.clients {
		if c.reason == paper.Done {
			t.Errorf("client %d has the file", i)
		}
	}
}
