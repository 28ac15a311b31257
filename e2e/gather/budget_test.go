package gather_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	netlink "github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// The link's budget is one for all that comes over it: while a delivery comes to the gatherer's machine, it has its rate, the targets of
// uploads hold, and uploads are given the rest. When it is over, they use the link again.
func TestDeliveryAndUploadsShareALink(t *testing.T) {
	const link, target, rate, size = 20. * mbit, 4. * mbit, 8. * mbit, 20_000_000
	const settle = 4 * time.Second // until windows have an effect
	b := newBudget(t, netlink.Shape{Rate: 20 * netlink.Mbit, Delay: 2 * time.Millisecond, Queue: netlink.Size(256 * netlink.KiB)}, gather.Policy{
		Link: link, Default: gather.Share{Target: target},
	})
	before := b.during(func() { pause(5 * time.Second) })
	delivered := b.deliver(size, "1MB")
	pause(settle)
	beside := b.during(func() { pause(10 * time.Second) })
	delivered()
	pause(settle)
	after := b.during(func() { pause(5 * time.Second) })
	for what, p := range map[string]period{"before": before, "beside the delivery": beside, "after": after} {
		t.Logf("%s, in %v: uploads have %.2f and %.2f Mbit/s of %.2f, the delivery %.2f; %.2f are carried, %d packets dropped, queue %.0f bytes", what, p.took.Round(10*time.Millisecond),
			p.rates["near"]/mbit, p.rates["far"]/mbit, p.planned/mbit, p.delivered/mbit, p.carried/mbit, p.dropped, p.queue)
		for client, rate := range p.rates {
			if rate < .95*target {
				t.Errorf("%s %s has %.2f Mbit/s, want 95 %% of its target of %.0f", what, client, rate/mbit, target/mbit)
			}
		}
	}
	if used := after.rates["near"] + after.rates["far"]; used < .8*link {
		t.Errorf("after the delivery uploads use %.2f Mbit/s of %.0f", used/mbit, link/mbit)
	}
	if beside.delivered < .9*rate {
		t.Errorf("the delivery has %.2f Mbit/s, want 90 %% of %.0f", beside.delivered/mbit, rate/mbit)
	}
	if together := beside.planned + beside.delivered; together > 1.05*link {
		t.Errorf("%.2f Mbit/s are planned for uploads beside the delivery's %.2f, of %.0f", beside.planned/mbit, beside.delivered/mbit, link/mbit)
	}
}

// budget is a machine with a gatherer and a member, which two clients and an agent reach over one link.
type budget struct {
	site
	*fleet.Fleet
	server, donor *lab.Host
	access, feed  lab.Way // to the server, and from the donor
	operator      *gather.Client
}

func newBudget(t *testing.T, shape netlink.Shape, policy gather.Policy) *budget {
	t.Helper()
	b := &budget{site: site{TB: t}}
	network := labtest.New(t, 74)
	manager, router := network.Host("manager"), network.Router("router")
	b.server, b.donor = network.Host("server"), network.Host("donor")
	b.access = network.Link(router, b.server, shape).From(router)
	terminals := map[*lab.Host]time.Duration{network.Host("near"): 5 * time.Millisecond, network.Host("far"): 20 * time.Millisecond}
	for host, delay := range terminals {
		network.Link(host, router, netlink.Shape{Rate: 200 * netlink.Mbit, Delay: delay})
	}
	b.feed = network.Link(b.donor, router, netlink.Shape{Rate: 200 * netlink.Mbit, Delay: 5 * time.Millisecond}).From(b.donor)
	labtest.Start(t, network)
	var err error
	b.Fleet, err = fleet.Start(t.Context(), manager)
	t.Cleanup(func() { b.must(b.Close()) })
	b.must(err)
	device, err := b.server.Interface()
	b.must(err)
	b.Build = b.withInterfaces
	_, err = b.Gatherer(t.Context(), b.server, policy, "--data-interface", device.Name)
	b.must(err)
	b.Build = testprocess.Build
	b.operator, err = b.Uploader(t.Context(), fleet.Dialer{Host: b.server}, b.server, "")
	b.must(err)
	t.Cleanup(func() { b.operator.Close() })
	b.receives()
	for host := range terminals {
		b.streams(host)
	}
	b.await("uploads fill the link", func() bool {
		all, err := b.operator.Clients(t.Context())
		return err == nil && float64(all.Received) > .8*float64(policy.Link)
	})
	return b
}

// withInterfaces returns a program that sees the network interfaces of its own host below /sys, as it does on a machine of its own.
func (b *budget) withInterfaces(importPath string) (string, error) {
	program, err := testprocess.Build(importPath)
	if err != nil {
		return "", err
	}
	script := filepath.Join(b.TempDir(), filepath.Base(importPath))
	text := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount -t sysfs sysfs /sys && exec \"$0\" \"$@\"' %s \"$@\"\n", program)
	return script, os.WriteFile(script, []byte(text), 0o700)
}

// receives has the gatherer's machine be a member, which the donor's agent feeds.
func (b *budget) receives() {
	b.Helper()
	ctx := b.Context()
	_, err := b.Agent(ctx, b.donor, "lan", memory(b))
	b.must(err)
	_, err = b.Client.CreateGroup(ctx, "group", sdk.Policy{})
	b.must(err)
	_, err = b.Groupcast(ctx, b.server, "pull", "--group", "group", "--as", "member", "--into", memory(b))
	b.must(err)
	b.must(b.AwaitMembers(ctx, "group", 1))
}

// deliver begins to deliver an object to the gatherer's machine at a rate. delivered waits until it is there.
func (b *budget) deliver(size int, rate string) (delivered func()) {
	b.Helper()
	source := filepath.Join(memory(b), "object")
	b.must(os.WriteFile(source, random(74, size), 0o600))
	push, err := b.Groupcast(b.Context(), b.donor, "push", source, "--group", "group", "--rate", rate)
	b.must(err)
	before := b.feed.Read().Count.Carried.Bytes
	b.await("bytes come", func() bool { return b.feed.Read().Count.Carried.Bytes > before+netlink.MiB })
	return func() {
		b.Helper()
		if err := push.Wait(); err != nil || !strings.Contains(push.Output(), "COMPLETE") {
			b.Fatalf("%v: %s", err, push.Output())
		}
	}
}

// streams has a client upload until the test ends.
func (b *budget) streams(host *lab.Host) {
	b.Helper()
	client, err := b.Uploader(b.Context(), fleet.Dialer{Host: host}, b.server, host.Name())
	b.must(err)
	ctx, leave := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		endless := func(uint64) (io.Reader, error) { return io.LimitReader(zeros{}, 256<<20), nil } // more than comes meanwhile
		if _, err := client.UploadStream(ctx, endless, gather.StreamOptions{Path: "stream"}); !errors.Is(err, context.Canceled) {
			b.Errorf("the stream of %s has ended: %v", host.Name(), err)
		}
	})
	b.Cleanup(func() {
		leave()
		running.Wait()
		client.Close()
	})
}

// period is what was seen while something went on; rates are in bytes per second.
type period struct {
	took      time.Duration
	rates     map[string]float64 // of clients
	planned   float64            // for all clients, at its end
	delivered float64            // with headers
	carried   float64
	dropped   int64
	queue     float64 // bytes in the mean
}

func (b *budget) during(do func()) period {
	b.Helper()
	clients, _ := b.received()
	access, feed, begun := b.access.Read(), b.feed.Read(), time.Now()
	do()
	p := period{took: time.Since(begun), rates: make(map[string]float64)}
	later, planned := b.received()
	p.planned = planned
	for name, received := range later {
		p.rates[name] = float64(received-clients[name]) / p.took.Seconds()
	}
	now, fed := b.access.Read(), b.feed.Read()
	p.delivered = float64(fed.Count.Carried.Bytes-feed.Count.Carried.Bytes) / p.took.Seconds()
	p.carried = float64(now.Count.Carried.Bytes-access.Count.Carried.Bytes) / p.took.Seconds()
	p.dropped = now.Count.Overflowed.Packets - access.Count.Overflowed.Packets
	p.queue = (now.Level.ByteSeconds - access.Level.ByteSeconds) / (now.At - access.At).Seconds()
	return p
}

// received returns how many bytes have come of each client, and what the controller plans for all of them.
func (b *budget) received() (bytes map[string]uint64, planned float64) {
	b.Helper()
	all, err := b.operator.Clients(b.Context())
	b.must(err)
	bytes = make(map[string]uint64)
	for _, client := range all.Clients {
		bytes[client.Name] = client.Received
	}
	return bytes, float64(all.Available)
}
