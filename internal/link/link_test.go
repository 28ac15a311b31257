package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	parentID = identity.ID{Role: identity.Agent, Name: "parent"}
	childID  = identity.ID{Role: identity.Member, Name: "child"}
)

// neighbours are two identities of one trust domain.
type neighbours struct{ parent, child identity.TLS }

func newNeighbours(tb testing.TB) neighbours {
	tb.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		tb.Fatal(err)
	}
	of := func(id identity.ID) identity.TLS {
		source, err := identity.NewSelfIssued(ca, id)
		if err != nil {
			tb.Fatal(err)
		}
		return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source}
	}
	return neighbours{of(parentID), of(childID)}
}

// connect opens a link over loopback, dialled by the child.
func (n neighbours) connect(tb testing.TB, hello wire.Hello, from uint64) (parent, child *link.Conn) {
	tb.Helper()
	return n.ask(tb, hello, from, link.Answer{})
}

// ask opens a link whose child says together with its hello what may be sent.
func (n neighbours) ask(tb testing.TB, hello wire.Hello, from uint64, first link.Answer) (parent, child *link.Conn) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	var welcomed sync.WaitGroup
	welcomed.Go(func() {
		raw, err := listener.Accept()
		if err != nil {
			tb.Error(err)
			return
		}
		asked, err := link.Accept(tb.Context(), raw, n.parent)
		if err != nil {
			tb.Error(err)
			return
		}
		if asked.Peer.ID != childID || asked.From != hello.From {
			tb.Errorf("%v asks from %d, want %v from %d", asked.Peer.ID, asked.From, childID, hello.From)
		}
		if parent, err = asked.Welcome(wire.Welcome{TreeVersion: 1, From: from}); err != nil {
			tb.Error(err)
		}
	})
	child, welcome, err := link.NewContacts(&net.Dialer{}, n.child, link.AllKeep).Ask(tb.Context(), listener.Addr().String(), parentID, hello, first)
	welcomed.Wait()
	if err != nil || tb.Failed() {
		tb.Fatalf("dial: %v", err)
	}
	if welcome.From != from || welcome.TreeVersion != 1 {
		tb.Errorf("welcome is %+v", welcome)
	}
	return parent, child
}

// source supplies a file that is complete.
type source struct {
	file   *os.File
	length uint64

	mu    sync.Mutex
	acked uint64
	sent  int
}

func (s *source) Next(offset, most uint64) (link.Portion, error) {
	portion := link.Portion{File: s.file, At: offset, Length: min(most, s.length-offset), TreeVersion: 1}
	if offset == s.length {
		portion.End = &link.End{Length: s.length, Root: [32]byte{1, 2, 3}}
	}
	return portion, nil
}

func (s *source) Sent(_ uint64, portion link.Portion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += int(portion.Length)
}

func (s *source) sentBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func (s *source) Acked(upTo uint64, _ wire.Level) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = max(s.acked, upTo)
	return nil
}

// sink stores into a file.
type sink struct {
	to   *os.File
	from uint64

	mu      sync.Mutex
	answer  link.Answer
	changed chan struct{}
	end     link.End
	window  uint64
}

func newSink(to *os.File, from, window uint64) *sink {
	return &sink{to: to, from: from, changed: make(chan struct{}), window: window, answer: link.Answer{Ack: from, Credit: from + window, Level: wire.Received, TreeVersion: 1}}
}

func (s *sink) Section(offset uint64) (link.Place, int64, error) {
	return link.Place{File: s.to, At: int64(offset - s.from)}, 1 << 40, nil
}

func (s *sink) Landed(upTo uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer.Ack, s.answer.Credit = upTo, upTo+s.window
	s.announce()
	return nil
}

func (s *sink) End(end link.End) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end, s.answer.Done = end, true
	s.announce()
	return nil
}

func (s *sink) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *sink) Answer() link.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answer
	answer.Changed = s.changed
	return answer
}

func randomFile(tb testing.TB, size int) (*os.File, []byte) {
	tb.Helper()
	content := make([]byte, size)
	rand.NewChaCha8([32]byte{7}).Read(content)
	name := filepath.Join(tb.TempDir(), "source")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { file.Close() })
	return file, content
}

func emptyFile(tb testing.TB) *os.File {
	tb.Helper()
	file, err := os.Create(filepath.Join(tb.TempDir(), "sink"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { file.Close() })
	return file
}

// transfer feeds a file to a sink, and returns how either end ended.
func transfer(ctx context.Context, parent, child *link.Conn, from uint64, supply link.Supply, store link.Store) (fed, taken error) {
	var feeding sync.WaitGroup
	feeding.Go(func() { fed = link.NewFeeding(ctx, from, supply, link.Options{}).Run(parent) })
	taken = link.NewTaking(ctx, from, store, link.Options{}).Run(child)
	feeding.Wait()
	return fed, taken
}

func TestBytesArrive(t *testing.T) {
	n := newNeighbours(t)
	for _, plaintext := range []bool{false, true} {
		for _, from := range []int{0, 1, 1 << 20, 3<<20 + 17} {
			t.Run(fmt.Sprintf("plaintext=%t from=%d", plaintext, from), func(t *testing.T) {
				file, content := randomFile(t, 3<<20+17)
				parent, child := n.connect(t, wire.Hello{Stripes: 1, From: uint64(from), Plaintext: plaintext}, uint64(from))
				supply, store := &source{file: file, length: uint64(len(content))}, newSink(emptyFile(t), uint64(from), 1<<20)
				fed, taken := transfer(t.Context(), parent, child, uint64(from), supply, store)
				if fed != nil || taken != nil {
					t.Fatalf("fed: %v; taken: %v", fed, taken)
				}
				got, err := os.ReadFile(store.to.Name())
				if err != nil || !bytes.Equal(got, content[from:]) {
					t.Errorf("%d bytes arrived (%v), want the last %d as they were", len(got), err, len(content)-from)
				}
				if store.end.Length != uint64(len(content)) || store.end.Root != [32]byte{1, 2, 3} {
					t.Errorf("the end is %+v", store.end)
				}
				if supply.acked != uint64(len(content)) {
					t.Errorf("%d bytes are acknowledged", supply.acked)
				}
			})
		}
	}
}

// A parent sends what was asked for together with the hello, before it hears anything more.
func TestParentSendsWhatComesWithTheHello(t *testing.T) {
	n := newNeighbours(t)
	for _, plaintext := range []bool{false, true} {
		file, content := randomFile(t, 1<<20)
		parent, child := n.ask(t, wire.Hello{Stripes: 1, Plaintext: plaintext}, 0, link.Answer{Credit: 100, Level: wire.Received})
		supply, store := &source{file: file, length: 1 << 20}, newSink(emptyFile(t), 0, 1<<20)
		var feeding sync.WaitGroup
		feeding.Go(func() {
			if err := link.NewFeeding(t.Context(), 0, supply, link.Options{}).Run(parent); err != nil {
				t.Error(err)
			}
		})
		for end := time.Now().Add(10 * time.Second); supply.sentBytes() < 100; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d bytes were sent", supply.sentBytes())
			}
		}
		if sent := supply.sentBytes(); sent != 100 {
			t.Errorf("%d bytes were sent of 100 that may be", sent)
		}
		if err := link.NewTaking(t.Context(), 0, store, link.Options{}).Run(child); err != nil {
			t.Error(err)
		}
		feeding.Wait()
		if got, _ := os.ReadFile(store.to.Name()); !bytes.Equal(got, content) {
			t.Error("other bytes arrived")
		}
	}
}

// What follows the welcome directly, in the same segment, is no longer taken for TLS.
func TestPlaintextBeginsAfterTheWelcome(t *testing.T) {
	n := newNeighbours(t)
	for range 50 {
		file, content := randomFile(t, 100)
		parent, child := n.connect(t, wire.Hello{Stripes: 1, Plaintext: true}, 0)
		store := newSink(emptyFile(t), 0, 1<<20)
		if fed, taken := transfer(t.Context(), parent, child, 0, &source{file: file, length: 100}, store); fed != nil || taken != nil {
			t.Fatalf("fed: %v; taken: %v", fed, taken)
		}
		if got, _ := os.ReadFile(store.to.Name()); !bytes.Equal(got, content) {
			t.Fatal("other bytes arrived")
		}
	}
}

func TestRefusalIsTold(t *testing.T) {
	n := newNeighbours(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var refused sync.WaitGroup
	refused.Go(func() {
		raw, _ := listener.Accept()
		asked, err := link.Accept(t.Context(), raw, n.parent)
		if err != nil {
			t.Error(err)
			return
		}
		asked.Refuse(wire.Denied, "capability expired")
	})
	_, _, err = link.Dial(t.Context(), &net.Dialer{}, listener.Addr().String(), n.child, parentID, wire.Hello{Stripes: 1})
	refused.Wait()
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != wire.Denied || refusal.Text != "capability expired" {
		t.Errorf("%v, want the refusal", err)
	}
}

func TestOnlyThePeerThatIsMeantIsSpokenTo(t *testing.T) {
	n := newNeighbours(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var accepted sync.WaitGroup
	accepted.Go(func() {
		raw, _ := listener.Accept()
		if _, err := link.Accept(t.Context(), raw, n.parent); err == nil {
			t.Error("a link was opened by a child that meant another parent")
		}
	})
	other := identity.ID{Role: identity.Agent, Name: "other"}
	if _, _, err := link.Dial(t.Context(), &net.Dialer{}, listener.Addr().String(), n.child, other, wire.Hello{Stripes: 1}); err == nil {
		t.Error("agent/parent passed for agent/other")
	}
	accepted.Wait()
}

// Bytes that were not asked for end the link and land nowhere, whether they come first or after others.
func TestBytesBeyondTheCreditEndTheLink(t *testing.T) {
	const asked = 100
	n := newNeighbours(t)
	for _, c := range []struct {
		name   string
		credit uint64
		sends  []uint32
		lands  uint64
	}{
		{"nothing is asked for", 0, []uint32{1}, 0},
		{"one more", asked, []uint32{asked + 1}, 0},
		{"one more than is left", asked, []uint32{60, asked + 1}, 60}, // with 60 there, 60 more are asked for
		{"as much as a frame can have", asked, []uint32{wire.MaxData}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent, child := n.connect(t, wire.Hello{Stripes: 1}, 0)
			defer parent.Close()
			store := newSink(emptyFile(t), 0, c.credit)
			var sending sync.WaitGroup
			sending.Go(func() {
				at := uint64(0)
				for _, length := range c.sends {
					frame := wire.Header{Type: wire.Data, Length: length, Offset: at, TreeVersion: 1}.Append(nil)
					_ = parent.Send(append(frame, make([]byte, length)...)) // the link ends meanwhile
					at += uint64(length)
				}
			})
			if err := link.NewTaking(t.Context(), 0, store, link.Options{}).Run(child); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("the link ended with %v, want %v", err, wire.ErrProtocol)
			}
			sending.Wait()
			if landed := store.Answer().Ack; landed != c.lands {
				t.Errorf("%d bytes landed, want %d", landed, c.lands)
			}
		})
	}
}

// nowhere is a store that has room for nothing.
type nowhere struct{ *sink }

func (nowhere) Section(uint64) (link.Place, int64, error) { return link.Place{}, 0, nil }

// Bytes for which there is no place end the link even if they were asked for: the child does not loop for ever.
func TestBytesThatGoNowhereEndTheLink(t *testing.T) {
	n := newNeighbours(t)
	parent, child := n.connect(t, wire.Hello{Stripes: 1}, 0)
	defer parent.Close()
	var sending sync.WaitGroup
	sending.Go(func() {
		_ = parent.Send(append(wire.Header{Type: wire.Data, Length: 1, TreeVersion: 1}.Append(nil), 0)) // the link ends meanwhile
	})
	if err := link.NewTaking(t.Context(), 0, nowhere{newSink(emptyFile(t), 0, 1)}, link.Options{}).Run(child); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("the link ended with %v, want %v", err, wire.ErrProtocol)
	}
	sending.Wait()
}

// C6: either end gives up a neighbour that is silent.
func TestSilentNeighbourIsGivenUp(t *testing.T) {
	n := newNeighbours(t)
	parent, child := n.connect(t, wire.Hello{Stripes: 1}, 0)
	defer parent.Close()
	if err := link.NewTaking(t.Context(), 0, newSink(emptyFile(t), 0, 1<<20), link.Options{}).Run(child); !errors.Is(err, link.ErrSilent) {
		t.Errorf("a silent parent: %v", err)
	}
	parent, child = n.connect(t, wire.Hello{Stripes: 1}, 0)
	defer child.Close()
	file, content := randomFile(t, 64<<20)
	if err := link.NewFeeding(t.Context(), 0, &source{file: file, length: uint64(len(content))}, link.Options{}).Run(parent); !errors.Is(err, link.ErrSilent) {
		t.Errorf("a silent child: %v", err)
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkLink moves 1 GB from a file over loopback to a file, or to nowhere.
func BenchmarkLink(b *testing.B) {
	n := newNeighbours(b)
	const size = 1 << 30
	file, _ := randomFile(b, size)
	for plane, plaintext := range map[string]bool{"plaintext": true, "tls": false} {
		for _, target := range []string{"null", "file"} {
			b.Run(plane+"-to-"+target, func(b *testing.B) {
				b.SetBytes(size)
				before := cpuTime(b)
				for b.Loop() {
					n.move(b, file, size, plaintext, target == "null")
				}
				b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N)/(size/1e9), "cpu-s/GB")
			})
		}
	}
}

// move sends a file, over a link of its own, into another file or to nowhere.
func (n neighbours) move(b *testing.B, file *os.File, size uint64, plaintext, nowhere bool) {
	b.Helper()
	name, flags := filepath.Join(b.TempDir(), "sink"), os.O_CREATE|os.O_WRONLY
	if nowhere {
		name, flags = os.DevNull, os.O_WRONLY
	}
	to, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	parent, child := n.connect(b, wire.Hello{Stripes: 1, Plaintext: plaintext}, 0)
	fed, taken := transfer(b.Context(), parent, child, 0, &source{file: file, length: size}, newSink(to, 0, size))
	if fed != nil || taken != nil {
		b.Fatal(fed, taken)
	}
	if !nowhere {
		if err := os.Remove(name); err != nil {
			b.Fatal(err)
		}
	}
}
