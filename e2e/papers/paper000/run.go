package paper000

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

// point is where on a figure's axes a run is.
type point struct {
	members    int
	trunkDelay time.Duration
	load       float64 // t_r / (t_r + t_i), 000 §IV-A
}

func (p point) String() string {
	return fmt.Sprintf("%d members, %v, load %.1f", p.members, p.trunkDelay, p.load)
}

// outcome is the indices of 000 §IV-B, in Mbit/s.
type outcome struct {
	consumption float64 // of the link between ma1 and SA1
	sent        float64 // D: what the sender has to send
	reception   float64 // T_r: of the member that gets least
	late        link.Lateness
}

// effective is T_r / D.
func (o outcome) effective() float64 {
	if o.sent == 0 {
		return 0
	}
	return o.reception / o.sent
}

// unicast is the traditional method: one TCP connection from the sender to each
// receiver.
func unicast(ctx context.Context, p point, seed uint64, duration time.Duration) (outcome, error) {
	n := figure5(seed, p.members, p.trunkDelay)
	defer n.Close()
	if err := n.Start(); err != nil {
		return outcome{}, err
	}
	pushes, err := n.open(ctx)
	defer func() {
		for _, push := range pushes {
			push.Close()
		}
	}()
	if err != nil {
		return outcome{}, err
	}
	start, before := time.Now(), n.uplink.Read().Count.Carried.Bytes
	offered, err := offer(ctx, pushes, p.load, seed, duration)
	if err != nil {
		return outcome{}, err
	}
	took := time.Since(start)
	o := outcome{
		consumption: mbit(n.uplink.Read().Count.Carried.Bytes-before, took),
		sent:        mbit(offered, took),
		late:        n.uplink.Lateness(),
	}
	o.reception = o.sent
	for _, push := range pushes {
		o.reception = min(o.reception, mbit(link.Bytes(push.Received.Load()), took))
	}
	return o, nil
}

func mbit(size link.Bytes, during time.Duration) float64 {
	return float64(size) * 8 / during.Seconds() / float64(link.Mbit)
}

// open connects the sender to every receiver. The kernel's buffers are raised,
// so that windows are bound by the network: 000 uses TCP SACK without a limit.
func (n *network) open(ctx context.Context) (pushes []*traffic.Push, err error) {
	for _, host := range append([]*lab.Host{n.sender}, n.receivers...) {
		for _, name := range []string{"net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"} {
			if err := host.Set(name, "4096 131072 33554432"); err != nil {
				return nil, err
			}
		}
	}
	for _, receiver := range n.receivers {
		push := &traffic.Push{From: n.sender, To: receiver, Port: 80, Congestion: "reno"}
		if err := push.Open(ctx); err != nil {
			return pushes, err
		}
		pushes = append(pushes, push)
	}
	return pushes, nil
}

// offer gives every connection the same data at the times of 000 §IV-A: the
// i-th at (t_r + t_i)(x + i), x uniform in -0.5 to 0.5. It returns after
// duration what one connection was given.
func offer(ctx context.Context, pushes []*traffic.Push, load float64, seed uint64, duration time.Duration) (link.Bytes, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	period := time.Duration(float64(rate.Time(dataSize)) / load)
	start := time.Now()
	var offered link.Bytes
	for i := 0; ; i++ {
		at := time.Duration((float64(i) + random.Float64() - 0.5) * float64(period))
		if at >= duration {
			break
		}
		if err := sleepUntil(ctx, start.Add(at)); err != nil {
			return offered, err
		}
		for _, push := range pushes {
			push.Offer(dataSize)
		}
		offered += dataSize
	}
	return offered, sleepUntil(ctx, start.Add(duration))
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}
