package paper000

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

// point is the position of a run on a figure's axes.
type point struct {
	senders    int // 1, or 4 for many-to-many
	members    int
	trunkDelay time.Duration
	load       float64 // t_r / (t_r + t_i), 000 §IV-A
	scale      int     // by which rates, sizes and queues are smaller than the paper's; 0 is 1
}

func (p point) String() string {
	return fmt.Sprintf("%d senders, %d members, %v, load %.1f", p.senders, p.members, p.trunkDelay, p.load)
}

// outcome holds the indices of 000 §IV-B, in Mbit/s; for a smaller network, converted to the paper's rates.
type outcome struct {
	consumption float64 // of the link between a sender and its router, on average
	sent        float64 // D: what a sender has to send, on average
	// reception is T_r. With one sender it is that of the member that gets least; with several, it
	// is all that a member gets, as the mean over the members (000 §V-B).
	reception float64
	// near and far are, with one sender, the mean of what a member gets at the sender's router and behind the other router.
	near, far float64
	sources   int     // how many senders a member receives from
	cache     float64 // C_max / D_max of SA1
	late      link.Lateness
	tally     tally  // of our own deliveries
	complaint string // of a member, if something has failed
}

// effective returns T_r / D, for each sender from which a member receives.
func (o outcome) effective() float64 {
	if o.sent == 0 {
		return 0
	}
	return o.reception / o.sent / float64(max(1, o.sources))
}

// unicast is the traditional method: one TCP connection from each sender to each receiver.
func unicast(ctx context.Context, p point, seed uint64, duration time.Duration) (outcome, error) {
	n := figure5(seed, p)
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
	m := n.begin()
	err = n.offer(ctx, p.load, seed, duration, func(sender *lab.Host) error {
		for _, push := range pushes {
			if push.From == sender {
				push.Offer(n.data())
			}
		}
		m.offer()
		return nil
	})
	if err != nil {
		return outcome{}, err
	}
	received := map[*lab.Host]link.Bytes{}
	for _, push := range pushes {
		received[push.To] += link.Bytes(push.Received.Load())
	}
	return m.end(received), nil
}

// open connects every sender to every receiver.
func (n *network) open(ctx context.Context) (pushes []*traffic.Push, err error) {
	if err := n.raiseBuffers(); err != nil {
		return nil, err
	}
	for i, sender := range n.senders {
		for _, receiver := range n.receivers {
			if receiver == sender {
				continue
			}
			push := &traffic.Push{From: sender, To: receiver, Port: 80 + uint16(i), Congestion: "reno"}
			if err := push.Open(ctx); err != nil {
				return pushes, err
			}
			pushes = append(pushes, push)
		}
	}
	return pushes, nil
}

// measurement is what is read from the network during a run.
type measurement struct {
	*network
	start  time.Time
	before link.Bytes

	mu      sync.Mutex
	offered link.Bytes // to all senders
}

func (n *network) begin() *measurement {
	return &measurement{network: n, start: time.Now(), before: n.sentBytes()}
}

// sentBytes returns what all senders' links have carried.
func (n *network) sentBytes() (sum link.Bytes) {
	for _, uplink := range n.uplinks {
		sum += uplink.Read().Count.Carried.Bytes
	}
	return sum
}

func (m *measurement) offer() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offered += m.data()
}

func (m *measurement) end(received map[*lab.Host]link.Bytes) outcome {
	senders := float64(len(m.senders))
	took := time.Since(m.start) / time.Duration(m.scale)
	o := outcome{
		consumption: mbit(m.sentBytes()-m.before, took) / senders,
		sent:        mbit(m.offered, took) / senders,
		sources:     max(1, len(m.senders)-1),
		late:        m.uplinks[0].Lateness(),
	}
	o.reception = m.leastOf(received, took)
	if len(m.senders) > 1 {
		o.reception = meanOf(received, m.receivers, took)
	}
	near, far := m.sides()
	o.near, o.far = meanOf(received, near, took), meanOf(received, far, took)
	return o
}

func (m *measurement) leastOf(received map[*lab.Host]link.Bytes, took time.Duration) float64 {
	least := received[m.receivers[0]]
	for _, receiver := range m.receivers {
		least = min(least, received[receiver])
	}
	return mbit(least, took)
}

func meanOf(received map[*lab.Host]link.Bytes, hosts []*lab.Host, took time.Duration) float64 {
	sum := link.Bytes(0)
	for _, host := range hosts {
		sum += received[host]
	}
	return mbit(sum, took) / float64(max(1, len(hosts)))
}

func mbit(size link.Bytes, during time.Duration) float64 {
	return float64(size) * 8 / during.Seconds() / float64(link.Mbit)
}

// offer calls give for every sender at the times of 000 §IV-A: for the i-th time at (t_r + t_i)(x +
// i), with x uniform in -0.5 to 0.5. It returns after duration.
func (n *network) offer(ctx context.Context, load float64, seed uint64, duration time.Duration, give func(*lab.Host) error) error {
	start, period := time.Now(), time.Duration(float64(rate.Time(dataSize))/load)
	errs := make([]error, len(n.senders))
	var offering sync.WaitGroup
	for s, sender := range n.senders {
		offering.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(s)))
			for i := 0; errs[s] == nil; i++ {
				at := time.Duration((float64(i) + random.Float64() - 0.5) * float64(period))
				if at >= duration {
					break
				}
				if errs[s] = sleepUntil(ctx, start.Add(at)); errs[s] == nil {
					errs[s] = give(sender)
				}
			}
		})
	}
	offering.Wait()
	return errors.Join(append(errs, sleepUntil(ctx, start.Add(duration)))...)
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}
