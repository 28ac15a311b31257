package simnet_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/simnet"
)

// A stream hands out the same bytes as a plain queue, whatever the sizes of its buffers and the shape of its link.
func TestStreamAgainstQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Only the TB is passed to rapid: a bubble has no Deadline.
		rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
			network := simnet.New(1)
			send, window := rapid.IntRange(1, 9000).Draw(t, "send"), rapid.IntRange(1, 9000).Draw(t, "window")
			network.Buffers(send, window)
			a, b := joinRapid(t, network)
			var queue []byte
			next := byte(0)
			t.Repeat(map[string]func(*rapid.T){
				"write": func(t *rapid.T) {
					piece := make([]byte, rapid.IntRange(0, 10000).Draw(t, "bytes"))
					for i := range piece {
						piece[i], next = next+byte(i), next+1
					}
					_ = a.SetWriteDeadline(time.Now().Add(time.Second))
					n, _ := a.Write(piece)
					queue = append(queue, piece[:n]...)
				},
				"read": func(t *rapid.T) {
					piece := make([]byte, rapid.IntRange(1, 10000).Draw(t, "room"))
					_ = b.SetReadDeadline(time.Now().Add(time.Second))
					n, err := b.Read(piece)
					if n == 0 && len(queue) > 0 || n > len(queue) || !bytes.Equal(piece[:n], queue[:n]) {
						t.Fatalf("read %d bytes, %v, of %d", n, err, len(queue))
					}
					queue = queue[n:]
				},
				"reshape": func(t *rapid.T) {
					network.Shape("a", "b", simnet.Shape{
						Latency: time.Duration(rapid.IntRange(0, 99).Draw(t, "latency")) * time.Millisecond,
						Rate:    simnet.Rate(rapid.SampledFrom([]int{0, 1 << 10, 1 << 20}).Draw(t, "rate")),
					})
				},
				"": func(t *rapid.T) {
					if len(queue) > send+window {
						t.Fatalf("buffers of %d and %d hold %d bytes", send, window, len(queue))
					}
					if err := network.Conserved(); err != nil {
						t.Fatal(err)
					}
				},
			})
			_, _ = a.Close(), b.Close()
			time.Sleep(time.Minute)
		})
	})
}

func joinRapid(t *rapid.T, network *simnet.Network) (a, b *simnet.Conn) {
	port, err := network.Host("b").Listen(":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	dialed, err := network.Host("a").Dial(t.Context(), "tcp", "b:7000")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := port.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialed.(*simnet.Conn), accepted.(*simnet.Conn)
}
