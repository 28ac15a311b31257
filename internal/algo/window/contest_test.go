package window_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// narrowed has two clients, with targets of 6 Mbit/s together, on a link that has come to carry less than half
// of that: the queue went when less was planned. Six segments take 20 ms on it, so that a shorter queue is none.
func narrowed(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, window.Groupcast, window.Options{})
	b.advance(5*second, waiting(2.5, 0))
	b.advance(2*second, waiting(1, 90*ms))
	b.wantPlanned(b.advance(1*second, waiting(1, 3*ms)), 1, 1.3)
	return b
}

// waiting returns two clients that get so many times 2.4 Mbit/s, and whose segments wait in a queue.
func waiting(times float64, queue time.Duration) window.Facts {
	facts := long(50*ms, 100*ms)
	for i, target := range []float64{4, 2} {
		client := &facts.Clients[i]
		one := &client.Connections[0]
		client.Target = mbits(target)
		client.Throughput *= window.Rate(times)
		one.Throughput, one.RTT = client.Throughput, one.RTT+queue
		one.Window = int(float64(client.Throughput) * one.RTT.Seconds())
	}
	return facts
}

// wantPlanned makes sure that so many times what comes is planned.
func (b *bench) wantPlanned(d window.Decision, least, most float64) {
	b.Helper()
	if got := float64(d.Available / mbits(2.4)); got < least || got > most {
		b.Errorf("%.2f times of what comes is planned, want %.2f to %.2f", got, least, most)
	}
}

// What is planned for a link that has less than the targets makes a short queue now and then, which is not
// taken for others'.
func TestShortQueueIsOurs(t *testing.T) {
	b := narrowed(t)
	for range 20 {
		b.wantPlanned(b.step(waiting(1, 30*ms)), .95, 1.3)
	}
}

// Nor is a longer queue, while as much comes as without it.
func TestQueueThatTakesNothingIsOurs(t *testing.T) {
	b := narrowed(t)
	for range 20 {
		b.wantPlanned(b.step(waiting(.95, 80*ms)), .9, 1.3)
	}
}

// A longer queue with which less comes is taken for others' after three steps, and targets are planned for. If no more
// comes then, it is tried again whether the link has less: after 4 s, after 8 s, and so on.
func TestNobodyIsTakenForOthersForLong(t *testing.T) {
	b := narrowed(t)
	b.wantPlanned(b.advance(1500*ms, waiting(.9, 80*ms)), 2.4, 2.6)
	b.wantPlanned(b.advance(3500*ms, waiting(.9, 80*ms)), 2.4, 2.6)
	b.wantPlanned(b.step(waiting(.9, 80*ms)), .85, 1.1)
	b.wantPlanned(b.advance(2*second, waiting(.9, 80*ms)), 2.4, 2.6)
	b.wantPlanned(b.advance(7500*ms, waiting(.9, 80*ms)), 2.4, 2.6)
	b.wantPlanned(b.step(waiting(.9, 80*ms)), .85, 1.1)
	b.wantPlanned(b.advance(1*second, waiting(1, 10*ms)), .95, 1.3)
}

// If more comes since it is taken for others', there are others: it is not tried again for a minute.
func TestOthersAreBelievedWhereItHelps(t *testing.T) {
	b := narrowed(t)
	b.advance(1500*ms, waiting(.9, 80*ms))
	for range 100 {
		b.wantPlanned(b.step(waiting(1.5, 80*ms)), 2.4, 2.6)
	}
}
