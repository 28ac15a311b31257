package paper000

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk"
)

// group is the group of all members in figure 5.
const group = "figure5"

// split is the split connection method with our own processes: session agents at the routers, and a process for every member.
func split(ctx context.Context, mode sdk.ControlMode, p point, options tuning, seed uint64, duration time.Duration) (o outcome, err error) {
	n := figure5(seed, p)
	defer n.Close()
	if err := n.Start(); err != nil {
		return o, err
	}
	if err := n.raiseBuffers(); err != nil {
		return o, err
	}
	f, err := fleet.Start(ctx, n.manager)
	if err != nil {
		return o, errors.Join(err, f.Close())
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	members, err := n.deploy(ctx, f, mode, options)
	defer func() {
		for _, m := range members {
			m.commands.Close()
		}
	}()
	if err != nil {
		return o, err
	}
	sa1 := strings.ToLower(n.routers[0].Name())
	caching := watchCache(ctx, f, sa1)
	m := n.begin()
	err = n.offer(ctx, p.load, seed, duration, func(sender *lab.Host) error {
		m.offer()
		return members[sender].tell("send")
	})
	if err != nil {
		return o, err
	}
	received, all, complaint, err := countAll(ctx, members)
	if err != nil {
		return o, err
	}
	o = m.end(received)
	o.tally, o.complaint = all, complaint
	most, err := mostOfOne(ctx, f, sa1)
	if err != nil {
		return o, err
	}
	o.cache = float64(max(caching(), most)) / float64(m.sentBytes()-m.before)
	return o, nil
}

// tuning says how members send.
type tuning struct {
	ahead   int  // deliveries that a sender has in progress at once
	lasting bool // instead, a sender sends everything as one stream, over lasting connections
	// congestion is the congestion control of all connections; if empty it is reno, as in the paper.
	congestion string
}

// member is a running member of figure 5.
type member struct {
	process  *lab.Process
	commands *io.PipeWriter
}

// deploy starts the agents and the members, and returns when all are ready.
func (n *network) deploy(ctx context.Context, f *fleet.Fleet, mode sdk.ControlMode, options tuning) (members map[*lab.Host]*member, err error) {
	for _, router := range n.routers {
		disk, err := router.Disk(cacheSize + 16*link.MiB)
		if err != nil {
			return nil, err
		}
		if _, err := f.Agent(ctx, router, router.Name(), disk.Inside(""), "--cache-bytes", fmt.Sprintf("%dMiB", cacheSize/link.MiB)); err != nil {
			return nil, err
		}
	}
	if _, err := f.Client.CreateGroup(ctx, group, sdk.Policy{ControlMode: mode, AckLevel: sdk.Received}); err != nil {
		return nil, err
	}
	members = map[*lab.Host]*member{}
	for host, router := range n.router {
		if members[host], err = n.join(ctx, f, host, router, options); err != nil {
			delete(members, host)
			return members, err
		}
	}
	return members, f.AwaitMembers(ctx, group, len(members))
}

// cacheSize is the most that an agent caches: 000 has no limit.
const cacheSize = 1024 * link.MiB

// diskSize is the space that a member has for what is in progress.
const diskSize = 512 * link.MiB

func (n *network) join(ctx context.Context, f *fleet.Fleet, host, router *lab.Host, options tuning) (*member, error) {
	disk, err := host.Disk(diskSize)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(disk.Outside("data"), make([]byte, n.data()), 0o600); err != nil {
		return nil, err
	}
	process, err := f.Prepare(ctx, host, "e2e/papers/member", "-group", group, "-as", host.Name(), "-zone", router.Name(),
		"-file", disk.Inside("data"), "-into", disk.Inside("in"), "-ahead", fmt.Sprint(options.ahead), fmt.Sprintf("-lasting=%v", options.lasting),
		"-congestion", cmp.Or(options.congestion, "reno"))
	if err != nil {
		return nil, err
	}
	stdin, commands := io.Pipe()
	process.Stdin = stdin
	return &member{process, commands}, process.Start()
}

func (m *member) tell(command string) error {
	select {
	case <-m.process.Ended():
		return fmt.Errorf("%w; it wrote: %s", m.process.Wait(), m.process.Output())
	default:
	}
	_, err := fmt.Fprintln(m.commands, command)
	return err
}

// tally is what a member reports.
type tally struct {
	received                                      int64 // bytes
	lost, waiting, running, complete, unfulfilled int   // deliveries
}

const tallyLine = "received %d lost %d waiting %d running %d complete %d unfulfilled %d"

func (t *tally) add(other tally) {
	t.received += other.received
	t.lost += other.lost
	t.waiting += other.waiting
	t.running += other.running
	t.complete += other.complete
	t.unfulfilled += other.unfulfilled
}

// count asks a member what it has received.
func (m *member) count(ctx context.Context) (t tally, err error) {
	if err := m.tell("count"); err != nil {
		return t, err
	}
	for ctx.Err() == nil {
		_, answer, _ := strings.Cut(m.process.Output(), "received ")
		if strings.HasSuffix(answer, "\n") {
			_, err := fmt.Sscanf("received "+answer, tallyLine, &t.received, &t.lost, &t.waiting, &t.running, &t.complete, &t.unfulfilled)
			return t, err
		}
		if err := sleepUntil(ctx, time.Now().Add(time.Millisecond)); err != nil {
			return t, err
		}
	}
	return t, ctx.Err()
}

// countAll asks all members at once.
func countAll(ctx context.Context, members map[*lab.Host]*member) (received map[*lab.Host]link.Bytes, all tally, complaint string, err error) {
	received = map[*lab.Host]link.Bytes{}
	var mu sync.Mutex
	var asking errgroup.Group
	for host, member := range members {
		asking.Go(func() error {
			t, err := member.count(ctx)
			mu.Lock()
			defer mu.Unlock()
			received[host] = link.Bytes(t.received)
			all.add(t)
			if t.lost+t.unfulfilled > 0 {
				complaint = member.process.Output()
			}
			return err
		})
	}
	err = asking.Wait()
	return received, all, complaint, err
}

// watchCache watches how much an agent caches that has not been acknowledged by all. The returned
// function ends the watch and returns the maximum.
func watchCache(ctx context.Context, f *fleet.Fleet, agent string) (most func() uint64) {
	ctx, cancel := context.WithCancel(ctx)
	var peak uint64
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			agents, err := f.Client.Agents(ctx)
			for _, a := range agents {
				if err == nil && a.Name == agent {
					var now uint64
					for _, d := range a.Deliveries {
						now += d.Cached
					}
					peak = max(peak, now)
				}
			}
			_ = sleepUntil(ctx, time.Now().Add(cacheInterval))
		}
	})
	return func() uint64 {
		cancel()
		watching.Wait()
		return peak
	}
}

const cacheInterval = 200 * time.Millisecond

// mostOfOne returns the most that an agent says it cached of one delivery: between two looks at all deliveries, a cache
// may have held more.
func mostOfOne(ctx context.Context, f *fleet.Fleet, agent string) (most uint64, err error) {
	list, err := f.Client.Deliveries(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("list deliveries: %w", err)
	}
	for _, listed := range list {
		delivery, err := f.Client.Delivery(ctx, listed.ID)
		if err != nil {
			return 0, fmt.Errorf("ask for delivery %s: %w", listed.ID, err)
		}
		for _, use := range delivery.Measurements.Caches {
			if use.Agent == agent {
				most = max(most, use.MaxBytes)
			}
		}
	}
	return most, nil
}
