package replicator_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/internal/udp"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit)) }

var (
	group = netip.MustParseAddrPort("239.7.7.7:4000")
	key   = []byte("a key of the test's own")
	quiet = slog.New(slog.DiscardHandler)
)

// bench is a LAN with one sender and its receivers.
type bench struct {
	t         *testing.T
	sender    *lab.Host
	receivers []*lab.Host
	links     []*lab.Link // of the receivers
	dirs      []string
	path      string
	told      func(send.Progress) // nil is nobody
	random    *rand.Rand
}

func onLAN(t *testing.T, receivers int, shape link.Shape) *bench {
	t.Helper()
	return onLANs(t, slices.Repeat([]link.Shape{shape}, receivers)...)
}

// onLANs has a receiver behind each link.
func onLANs(t *testing.T, links ...link.Shape) *bench {
	t.Helper()
	l := labtest.New(t, 1)
	b := &bench{t: t, sender: l.Host("sender"), receivers: l.Hosts("receiver", len(links)), random: rand.New(rand.NewPCG(1, 1))}
	lan := l.LAN("lan")
	l.Link(b.sender, lan, link.Shape{})
	for i, host := range b.receivers {
		b.links = append(b.links, l.Link(host, lan, links[i]))
		b.dirs = append(b.dirs, t.TempDir())
	}
	labtest.Start(t, l)
	return b
}

func (b *bench) place(host *lab.Host) multicast.Place {
	device, err := host.Interface()
	if err != nil {
		b.t.Fatal(err)
	}
	return multicast.Place{Group: group, Interface: device.Name}
}

// mouth sends to the group from a host.
func (b *bench) mouth(host *lab.Host) (mouth *udp.Socket) {
	b.t.Helper()
	err := host.Do(func() (err error) {
		mouth, err = multicast.Open(b.place(host), 0)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return mouth
}

// file makes a file of random bytes.
func (b *bench) file(size int) {
	b.t.Helper()
	content := make([]byte, size)
	for i := 0; i < size; i++ {
		content[i] = byte(b.random.Uint32())
	}
	b.path = filepath.Join(b.t.TempDir(), "object")
	if err := os.WriteFile(b.path, content, 0o640); err != nil {
		b.t.Fatal(err)
	}
}

type received struct {
	receive.Receipt
	err error
}

// receive receives on a host into a directory.
func (b *bench) receive(ctx context.Context, i int, change ...func(*receive.Config)) <-chan received {
	config := receive.Config{
		Place: b.place(b.receivers[i]), Key: key, Name: b.receivers[i].Name(), Await: 20 * time.Second, Patience: 20 * time.Second, Durable: true,
		Find: func(ctx context.Context, info object.Info) (receive.Landing, error) {
			return receive.InspectObject(ctx, b.dirs[i], info)
		},
		Open: func(ctx context.Context, info object.Info) (receive.Landing, error) {
			return object.Land(ctx, b.dirs[i], info)
		},
	}
	for _, one := range change {
		one(&config)
	}
	done := make(chan received, 1)
	go func() {
		var r received
		err := b.receivers[i].Do(func() error {
			r.Receipt, r.err = receive.Run(ctx, receive.Env{Log: quiet}, config)
			return nil
		})
		if err != nil {
			r.err = err
		}
		done <- r
	}()
	return done
}

// send sends the file to all receivers.
func (b *bench) send(ctx context.Context, change ...func(*send.Config)) (send.Result, error) {
	b.t.Helper()
	source, err := send.OpenObject(ctx, b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer source.Close()
	return b.sendFrom(ctx, source, change...)
}

// sendFrom sends any source.
func (b *bench) sendFrom(ctx context.Context, source send.Source, change ...func(*send.Config)) (send.Result, error) {
	config := send.Config{
		Place: b.place(b.sender), Key: key, Source: source, Receivers: len(b.receivers), Wait: 20 * time.Second,
		Ceiling: 1.25e9, Patience: 20 * time.Second,
	}
	for _, one := range change {
		one(&config)
	}
	var result send.Result
	err := b.sender.Do(func() (err error) {
		result, err = send.Run(ctx, send.Env{Log: quiet, Progress: b.told}, config)
		return err
	})
	return result, err
}

func (b *bench) wantCopies(which ...int) {
	b.t.Helper()
	want, err := os.ReadFile(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, i := range which {
		got, err := os.ReadFile(filepath.Join(b.dirs[i], filepath.Base(b.path)))
		if err != nil || string(got) != string(want) {
			b.t.Errorf("receiver %d has %d bytes of %d, or others: %v", i, len(got), len(want), err)
		}
	}
}

func (b *bench) wantComplete(result send.Result, err error, receipts ...<-chan received) {
	b.t.Helper()
	if err != nil {
		b.t.Error(err)
	}
	for _, one := range receipts {
		if r := <-one; r.err != nil || r.Root != result.Root {
			b.t.Errorf("receipt %+v: %v", r.Receipt, r.err)
		} else {
			b.t.Logf("%+v", r.Stats)
		}
	}
	for _, m := range result.Members {
		if m.Outcome != algo.Complete {
			b.t.Errorf("the sender says of %s: %v %s", m.Name, m.Outcome, m.Reason)
		}
	}
	b.t.Logf("%v: %+v, datagrams of %d bytes, %+v", result.Took, result.Counts, result.Datagram, result.Offload)
}

func TestReplicateAFile(t *testing.T) {
	for name, shape := range map[string]link.Shape{
		"plain": {}, "shaped": {Rate: 100 * link.Mbit, Delay: 100 * time.Microsecond, Queue: link.Packets(200)},
		"lossy": {Rate: 100 * link.Mbit, Delay: 100 * time.Microsecond, Queue: link.Packets(200), Loss: 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 3, shape)
			b.file(5_000_001)
			var receipts []<-chan received
			for i := range b.receivers {
				receipts = append(receipts, b.receive(t.Context(), i))
			}
			result, err := b.send(t.Context())
			b.wantComplete(result, err, receipts...)
			b.wantCopies(0, 1, 2)
		})
	}
}
