package paper_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/multicast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
	"github.com/groupcast/groupcast/services/replicator/paper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var place = multicast.Place{Group: netip.MustParseAddrPort("239.7.7.7:7431"), Interface: "eth0", TTL: 4}

// campus is a server's LAN and another behind a router, with clients in both.
type campus struct {
	*testing.T
	server  *lab.Host
	clients []*lab.Host
	slow    *lab.Link // the router's to the other LAN
	dir     string
}

func newCampus(t *testing.T, here, there int, shape link.Shape) *campus {
	l := labtest.New(t, 1)
	c := &campus{T: t, server: l.Host("server"), dir: t.TempDir()}
	lan, far, router := l.LAN("wired"), l.LAN("wireless"), l.Router("router")
	l.Link(c.server, lan, link.Shape{})
	l.Link(router, lan, link.Shape{})
	c.slow = l.Link(router, far, shape).Back(link.Shape{Rate: shape.Rate})
	for i, client := range l.Hosts("client", here+there) {
		c.clients = append(c.clients, client)
		if i < here {
			l.Link(client, lan, link.Shape{})
		} else {
			l.Link(client, far, link.Shape{})
		}
	}
	labtest.Start(t, l)
	if err := router.RouteMulticast(); err != nil {
		t.Fatal(err)
	}
	return c
}

// lans are the subnets of the server's LAN, and of the last client's.
func (c *campus) lans() []netip.Prefix {
	var lans []netip.Prefix
	for _, host := range []*lab.Host{c.server, c.clients[len(c.clients)-1]} {
		prefix, err := host.Addr().Prefix(24)
		if err != nil {
			c.Fatal(err)
		}
		lans = append(lans, prefix)
	}
	return lans
}

func (c *campus) file(size int) *os.File {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	name := filepath.Join(c.dir, "source")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		c.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { file.Close() })
	return file
}

// sender is one with a short end.
func (c *campus) sender() paper.Sender {
	return paper.Sender{Place: place, Rules: algo.SenderOptions{LANs: c.lans(), Linger: time.Second}}
}

// replicate sends a file to all clients, and returns what became of it at each.
func (c *campus) replicate(s paper.Sender, from *os.File) (paper.Sent, []paper.Received) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	got, errs := make([]paper.Received, len(c.clients)), make([]error, len(c.clients))
	var running sync.WaitGroup
	defer running.Wait()
	for i, host := range c.clients {
		running.Go(func() {
			errs[i] = host.Do(func() (err error) {
				got[i], err = paper.Receiver{Place: place, Rules: algo.ReceiverOptions{GivingUp: 10 * time.Second}}.ReceiveFile(ctx, filepath.Join(c.dir, host.Name()))
				return err
			})
		})
		c.awaitJoined(host)
	}
	var sent paper.Sent
	err := c.server.Do(func() (err error) {
		sent, err = s.SendFile(ctx, from)
		return err
	})
	if err != nil {
		cancel()
		c.Fatal(err)
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		c.Fatal(err)
	}
	return sent, got
}

// awaitJoined returns when the host has joined the group: its kernel's list says so.
func (c *campus) awaitJoined(host *lab.Host) {
	c.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		joined := false
		if err := host.Do(func() error {
			list, err := os.ReadFile("/proc/thread-self/net/igmp")
			joined = strings.Contains(string(list), "070707EF")
			return err
		}); err != nil {
			c.Fatal(err)
		}
		if joined {
			return
		}
	}
	c.Fatalf("%s has not joined", host.Name())
}

func (c *campus) wantAllWhole(from *os.File) {
	c.Helper()
	want, err := os.ReadFile(from.Name())
	if err != nil {
		c.Fatal(err)
	}
	for _, host := range c.clients {
		got, err := os.ReadFile(filepath.Join(c.dir, host.Name()))
		if err != nil || !bytes.Equal(got, want) {
			c.Errorf("%s has %d of %d bytes, the same: %v, %v", host.Name(), len(got), len(want), bytes.Equal(got, want), err)
		}
	}
	left, err := filepath.Glob(filepath.Join(c.dir, ".*"))
	if err != nil || len(left) > 0 {
		c.Errorf("left behind: %v, %v", left, err)
	}
}

// The paper's own network, in small: two LANs of unequal rates, and the file is everywhere.
func TestFileReachesTwoLANs(t *testing.T) {
	c := newCampus(t, 2, 2, link.Shape{Rate: 10 * link.Mbit})
	from := c.file(700_001)
	sent, got := c.replicate(c.sender(), from)
	c.wantAllWhole(from)
	t.Logf("sent: %+v", sent)
	for i, one := range got {
		if one.Server.Addr() != c.server.Addr() || one.Bytes != 700_001 {
			t.Errorf("client %d: %+v", i, one)
		}
	}
	if sent.Packets != 700_001/512+2 {
		t.Errorf("%d packets", sent.Packets)
	}
}

// The server's own LAN is that of its interface, also where others are known by another prefix: its clients give one ACK.
func TestOwnLANIsTheInterfaces(t *testing.T) {
	c := newCampus(t, 2, 0, link.Shape{})
	s := c.sender()
	s.Rules.LANs, s.Rules.StrangerBits = nil, 32
	sent, _ := c.replicate(s, c.file(20_000))
	if want := c.lans()[:1]; !slices.Equal(sent.Joined, want) {
		t.Errorf("joined: %v, want %v", sent.Joined, want)
	}
}

// C35, C36: through a network that loses, doubles and reorders.
func TestFileSurvivesLoss(t *testing.T) {
	c := newCampus(t, 1, 2, link.Shape{Rate: 20 * link.Mbit, Loss: 0.02, Duplicate: 0.02, Reorder: link.Reorder{Probability: 0.02, By: 2 * time.Millisecond}})
	from := c.file(400_000)
	sent, got := c.replicate(c.sender(), from)
	c.wantAllWhole(from)
	if sent.Repairs == 0 || got[1].Marked == 0 || got[0].Marked != 0 {
		t.Errorf("sent: %+v, got %+v", sent, got)
	}
}

// "Although theoretically the payload could encapsulate to 2^16 bytes of data, we use a payload size
// of 512" (§III-B): the server's size is every client's.
func TestOtherPayloadSizes(t *testing.T) {
	c := newCampus(t, 1, 1, link.Shape{Rate: 50 * link.Mbit})
	from := c.file(300_000)
	for _, payload := range []int{1461, 100} {
		s := c.sender()
		s.Payload = payload
		c.replicate(s, from)
		c.wantAllWhole(from)
		for _, host := range c.clients {
			if err := os.Remove(filepath.Join(c.dir, host.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := c.sender()
	s.Payload = 1462
	err := c.server.Do(func() error {
		_, err := s.SendFile(t.Context(), from)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "1 to 1461") {
		t.Errorf("with a packet more than the MTU: %v", err)
	}
}

// "disabling the error correction phase […] also for on-line applications" (§III-A)
func TestStreamArrivesInOrder(t *testing.T) {
	c := newCampus(t, 1, 1, link.Shape{Rate: 20 * link.Mbit, Loss: 0.01})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got [2]bytes.Buffer
	var lost [2]uint64
	errs := make([]error, 2)
	var running sync.WaitGroup
	defer running.Wait()
	for i, host := range c.clients {
		running.Go(func() {
			errs[i] = host.Do(func() error {
				_, err := paper.Receiver{Place: place}.ReceiveStream(ctx, &got[i], func(n uint64) { lost[i] += n })
				return err
			})
		})
		c.awaitJoined(host)
	}
	content := make([]byte, 300*512)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	err := c.server.Do(func() error {
		_, err := c.sender().SendStream(ctx, io.MultiReader(bytes.NewReader(content[:1000]), bytes.NewReader(content[1000:])))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if missed := gaps(t, got[0].Bytes(), content); missed > 512*lost[0] || got[0].Len()+int(missed) != len(content) {
		t.Errorf("the near one has %d of %d bytes, and lost %d packets; %d bytes are missing in between", got[0].Len(), len(content), lost[0], missed)
	}
	if missed := gaps(t, got[1].Bytes(), content); missed > 512*lost[1] || got[1].Len() < len(content)/2 {
		t.Errorf("the far one has %d bytes, and lost %d packets; %d bytes are missing in between", got[1].Len(), lost[1], missed)
	}
}

// gaps returns how many bytes of some content are missing between those that came, which have to be in order.
func gaps(t *testing.T, came, content []byte) (missing uint64) {
	t.Helper()
	const known = 16 // so many random bytes stand in one place alone
	for len(came) > 0 {
		at := bytes.Index(content, came[:min(known, len(came))])
		if at < 0 {
			t.Fatalf("%d bytes came that are not among what is still to come", len(came))
		}
		missing += uint64(at)
		content = content[at:]
		same := 0
		for same < min(len(came), len(content)) && came[same] == content[same] {
			same++
		}
		came, content = came[same:], content[same:]
	}
	return missing
}

// C59: where nobody listens, or the network does not pass multicast on, it is said within 5 s.
func TestNobodyListens(t *testing.T) {
	c := newCampus(t, 1, 1, link.Shape{Rate: 20 * link.Mbit})
	began := time.Now()
	err := c.server.Do(func() error {
		_, err := c.sender().SendFile(t.Context(), c.file(1000_000))
		return err
	})
	if took := time.Since(began); !errors.Is(err, paper.ErrNobodyListens) || took > 6*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

// What is no packet of SOMA's is refused, and so is what is there already.
func TestRefusals(t *testing.T) {
	c := newCampus(t, 1, 1, link.Shape{Rate: 20 * link.Mbit})
	from := c.file(200_000)
	junk := make(chan struct{})
	var junking sync.WaitGroup
	junking.Go(func() {
		_ = c.server.Do(func() error { return shout(junk) })
	})
	_, _ = c.replicate(c.sender(), from)
	close(junk)
	junking.Wait()
	c.wantAllWhole(from)
	err := c.clients[0].Do(func() error {
		_, err := paper.Receiver{Place: place}.ReceiveFile(t.Context(), filepath.Join(c.dir, c.clients[0].Name()))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("received into a file that is there: %v", err)
	}
}

// shout sends to the group what is no packet, until it is told to stop.
func shout(until <-chan struct{}) error {
	mouth, err := multicast.Open(place, 0)
	if err != nil {
		return err
	}
	defer mouth.Close()
	random := rand.New(rand.NewPCG(1, 1))
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		junk := make([]byte, random.IntN(1200))
		for i := range junk {
			junk[i] = byte(random.Uint32())
		}
		if len(junk) > 4 && random.IntN(2) == 0 {
			junk[4] = byte(wire.Data) // but PL is wrong
		}
		if err := mouth.Send(junk, place.Group); err != nil {
			return err
		}
		select {
		case <-until:
			return nil
		case <-pause.C:
		}
	}
}

// C48: a client whose disk is full fails, leaves nothing, and holds nobody up.
func TestFullDisk(t *testing.T) {
	c := newCampus(t, 2, 1, link.Shape{Rate: 20 * link.Mbit})
	from := c.file(3_000_000)
	disk, err := c.clients[0].Disk(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var full error
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.clients[0].Do(func() error {
			_, full = paper.Receiver{Place: place}.ReceiveFile(ctx, disk.Outside("replica"))
			return nil
		})
	})
	c.awaitJoined(c.clients[0])
	c.clients = c.clients[1:]
	c.replicate(c.sender(), from)
	running.Wait()
	c.wantAllWhole(from)
	if full == nil || !strings.Contains(full.Error(), "no space left") {
		t.Errorf("the full one: %v", full)
	}
	if left, err := os.ReadDir(disk.Outside("")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
