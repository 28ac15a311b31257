package simnet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
)

const object = 1 << 20

// relay copies one object from source via middle to sink. The receiving side dials, says what it has, and gets the rest.
type relay struct {
	network *simnet.Network
	held    map[string][]byte
}

// serve answers until its listener is gone.
func (r *relay) serve(ctx context.Context, host string, have func() []byte) {
	port, err := r.network.Host(host).Listen(":1")
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = port.Close() })()
	for {
		conn, err := port.Accept()
		if err != nil {
			return
		}
		go send(ctx, conn, have)
	}
}

func send(ctx context.Context, conn net.Conn, have func() []byte) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var offset uint64
	if binary.Read(conn, binary.BigEndian, &offset) == nil {
		_, _ = conn.Write(have()[offset:])
	}
}

// fetch asks again until it has everything.
func (r *relay) fetch(ctx context.Context, host, from string, got []byte) []byte {
	for len(got) < object && ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		conn, err := r.network.Host(host).Dial(attempt, "tcp", from+":1")
		cancel()
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			got = receive(conn, got)
			stop()
		}
		sleep(ctx, time.Second)
	}
	return got
}

func receive(conn net.Conn, got []byte) []byte {
	defer conn.Close()
	_ = binary.Write(conn, binary.BigEndian, uint64(len(got)))
	piece := make([]byte, 16<<10)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := conn.Read(piece)
		got = append(got, piece[:n]...)
		if err != nil {
			return got
		}
	}
}

func sleep(ctx context.Context, wait time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// runRelay returns the hash of the log.
func runRelay(t *testing.T, seed uint64) (hash uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	schedule := simnet.Chaos{
		Links: [][2]string{{"source", "middle"}, {"middle", "sink"}}, Hosts: []string{"source", "middle", "sink"},
		Faults: 10, Span: time.Minute,
	}.Schedule(random)
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(seed)
		network.ShapeAll(simnet.Shape{Latency: 5 * time.Millisecond, Rate: 100 << 10})
		want := make([]byte, object)
		for i := range want {
			want[i] = byte(random.Uint32())
		}
		r := &relay{network: network, held: map[string][]byte{"source": want}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, host := range []string{"source", "middle", "sink"} {
			network.Host(host)
		}
		got := r.run(ctx, schedule)
		if !bytes.Equal(got, want) {
			t.Errorf("seed %d: the sink got %d bytes, or wrong ones:\n%s", seed, len(got), schedule)
		}
		cancel()
		time.Sleep(time.Minute)
		if err := network.Conserved(); err != nil {
			t.Errorf("seed %d: %v:\n%s", seed, err, schedule)
		}
		hash = network.Hash()
	})
	return hash
}

// run starts the programs again whenever their host comes back.
func (r *relay) run(ctx context.Context, schedule simnet.Schedule) []byte {
	middle := make(chan []byte, 1)
	sink := make(chan []byte, 1)
	restart := make(map[string]chan struct{})
	servers := map[string]func() []byte{
		"source": func() []byte { return r.held["source"] },
		"middle": func() []byte {
			got := <-middle // store and forward
			middle <- got
			return got
		},
	}
	for host, have := range servers {
		started := make(chan struct{}, 100)
		started <- struct{}{}
		restart[host] = started
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-started:
					r.serve(ctx, host, have)
				}
			}
		}()
	}
	go func() { middle <- r.fetch(ctx, "middle", "source", nil) }()
	go func() { sink <- r.fetch(ctx, "sink", "middle", nil) }()
	schedule.Run(ctx, r.network, nil, func(host string) {
		if restart[host] != nil {
			restart[host] <- struct{}{}
		}
	})
	return <-sink
}

func TestChaosEnds(t *testing.T) {
	for seed := range uint64(200) {
		runRelay(t, seed)
	}
}

func TestSameSeedSameLog(t *testing.T) {
	seen := make(map[uint64]bool)
	for seed := range uint64(10) {
		first := runRelay(t, seed)
		for range 3 {
			if again := runRelay(t, seed); again != first {
				t.Errorf("seed %d: log %x, then %x", seed, first, again)
			}
		}
		seen[first] = true
	}
	if len(seen) != 10 {
		t.Errorf("ten seeds made %d logs", len(seen))
	}
}

func BenchmarkStream(b *testing.B) {
	a, z := join(b, simnet.New(1))
	defer z.Close()
	chunk := make([]byte, 32<<10)
	b.SetBytes(int64(len(chunk)))
	go func() {
		defer a.Close()
		for range b.N {
			_, _ = a.Write(chunk)
		}
	}()
	_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{z}, make([]byte, 32<<10))
}
