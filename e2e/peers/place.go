package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// network is a started topology with one sender.
type network struct {
	*lab.Lab
	sender    *lab.Host
	receivers []*lab.Host
	rate      link.Rate // 0 is the speed of the kernel
	uplink    lab.Way   // from the sender
	cables    []lab.Way // to each receiver, on a LAN

	manager *lab.Host // of our own tool: outside the network
	agents  []*lab.Host
	zones   map[*lab.Host]string // of agents and receivers: those in one zone are near each other
}

// congestion is what all tools send with: the kernel's usual default, whatever this machine's is.
const congestion = "cubic"

func (n *network) start() error {
	if err := n.Start(); err != nil {
		return err
	}
	for _, host := range slices.Concat([]*lab.Host{n.sender}, n.receivers, n.agents) {
		if err := host.SetCongestion(congestion); err != nil {
			return err
		}
		if err := askAgainSoon(host); err != nil {
			return err
		}
	}
	return nil
}

// askAgainSoon has a host that asks for another's hardware address, and gets no answer, ask again at once, not after the kernel's second:
// where cables lose packets, a tool's time would else depend on whether that one was lost.
func askAgainSoon(host *lab.Host) error {
	device, err := host.Interface()
	if err != nil {
		return err
	}
	return host.Set("net/ipv4/neigh/"+device.Name+"/retrans_time_ms", "20")
}

// place is a topology in which tools are compared.
type place struct {
	name   string
	about  string
	routed bool       // multicast does not pass
	size   link.Bytes // of what is sent, unless the caller gives another
	tools  []string   // those compared; none means all except the special ones
	build  func(seed uint64) *network
	clean  func(seed uint64) *network // the same network, which loses nothing, where this one loses packets at random
	queue  bool                       // the last receiver's cable is emulated: it is known how many packets its queue had no room for

	directory bool   // what is sent is no file but a directory, of which every receiver has an earlier version
	base      string // the tool with whose times those of the others are compared; empty is nginx + curl
}

// baseline is the tool with whose times those of the others are compared.
func (p place) baseline() string { return cmp.Or(p.base, "nginx + curl") }

// queueOf returns how much can wait at a link: as in paper 000, 200 packets at 100 Mbit/s.
func queueOf(rate link.Rate) link.Queue { return link.Packets(int(200 * rate / (100 * link.Mbit))) }

var (
	unicast = []string{"groupcast (plaintext)", "groupcast (tls)", "nginx + curl"}
	hashing = []string{"nginx + curl + b3sum", "nginx + curl + sha256sum", "nginx + curl + b3sum (tls)"}
	changes = []string{"groupcast (plaintext, changes)", "groupcast (tls, changes)"}
	special = append(append(slices.Clone(hashing), changes...), "groupcast (tls, bbr)", detach)
	group   = []string{"groupcast (multicast)", "udpcast", "uftp"}
	far     = append(slices.Clone(unicast), "groupcast (tls, bbr)")
	fast    = append(append(slices.Clone(unicast), hashing...), "rsync")
	updates = append(slices.Clone(changes), "groupcast (tls)", "rsync") // tools that bring a directory up to date, or replace it
)

// detach is our multicast in the mode in which a slow receiver holds up nobody.
const detach = "groupcast (multicast, detach)"

var places = []place{
	{
		name: "lan4", about: "1 to 4 receivers on a LAN of 25 Mbit/s links, an agent beside each", size: 16 * link.MiB,
		build: func(seed uint64) *network { return onEach(seed, slices.Repeat([]link.Rate{25 * link.Mbit}, 4)...) },
	},
	{
		name: "lan16", about: "1 to 16 receivers on a LAN of 40 Mbit/s links, an agent beside each", size: 16 * link.MiB,
		build: func(seed uint64) *network { return onEach(seed, slices.Repeat([]link.Rate{40 * link.Mbit}, 16)...) },
	},
	{
		name: "figure5", about: "1 to 3 networks of 2 over two routers, figure 5 of paper 000, 50 Mbit/s, trunk of 50 ms", routed: true, size: 16 * link.MiB,
		build: func(seed uint64) *network { return figure5(seed, 2, 50*link.Mbit, 50*time.Millisecond) },
	},
	{
		name: "fast4", about: "1 to 4 receivers at the speed of the machine", size: 512 * link.MiB, tools: fast,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 4), 2) },
	},
	{
		name: "fast16", about: "1 to 16 receivers at the speed of the machine", size: 512 * link.MiB, tools: fast,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 16), 2) },
	},
	{
		name: "figure5x3", about: "figure 5 of paper 000 with 3 receivers, 20 Mbit/s, 10 ms on every link", routed: true, size: 10_000_000, tools: unicast,
		build: func(seed uint64) *network { return figure5(seed, 1, 20*link.Mbit, 10*time.Millisecond) },
	},
	{
		name: "figure5x15", about: "figure 5 of paper 000 with 15 receivers, 10 Mbit/s, 10 ms on every link", routed: true, size: 5_000_000, tools: unicast,
		build: func(seed uint64) *network { return figure5(seed, 5, 10*link.Mbit, 10*time.Millisecond) },
	},
	{
		name: "far", about: "figure 5 of paper 000 with 3 receivers, 20 Mbit/s, 100 ms between the routers", routed: true, size: 10_000_000, tools: far,
		build: func(seed uint64) *network { return figure5(seed, 1, 20*link.Mbit, 100*time.Millisecond) },
	},
	{
		name: "slow1of4", about: "1 to 4 receivers, of which the last has 10 Mbit/s and the others 100", routed: true, size: 16 * link.MiB, tools: unicast,
		build: slowOne,
	},
	{
		name: "slowlan4", about: "1 to 4 receivers on a LAN, an agent beside each; the second has 10 Mbit/s and the others 100", size: 16 * link.MiB, tools: unicast,
		build: func(seed uint64) *network {
			return onEach(seed, 100*link.Mbit, 10*link.Mbit, 100*link.Mbit, 100*link.Mbit)
		},
	},
	{
		name: "one16", about: "1 to 16 receivers at the speed of the machine, all fed by one agent", size: 512 * link.MiB, tools: unicast,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 16), 1) },
	},
	{
		name: "bridge1", about: "multicast to 1 receiver at the speed of the machine", size: 512 * link.MiB, tools: group,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 1), 1) },
	},
	{
		name: "bridge4", about: "multicast to 4 receivers at the speed of the machine", size: 512 * link.MiB, tools: group,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 4), 1) },
	},
	{
		name: "bridge8", about: "multicast to 8 receivers at the speed of the machine", size: 256 * link.MiB, tools: group,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 8), 1) },
	},
	{
		name: "bridge16", about: "multicast to 16 receivers at the speed of the machine", size: 256 * link.MiB, tools: group,
		build: func(seed uint64) *network { return onLAN(seed, make([]link.Rate, 16), 1) },
	},
	{
		name: "switch1", about: "multicast to 1 receiver on a LAN of 100 Mbit/s", size: 10_000_000, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, 1, 0) },
	},
	{
		name: "switch16", about: "multicast to 16 receivers on a LAN of 100 Mbit/s", size: 10_000_000, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, 16, 0) },
	},
	{
		name: "switch4", about: "multicast to 4 receivers on a LAN of 100 Mbit/s", size: 10_000_000, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, 4, 0) },
	},
	{
		name: "switch8", about: "multicast to 8 receivers on a LAN of 100 Mbit/s", size: 10_000_000, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, 8, 0) },
	},
	{
		name: "switch4short", about: "multicast to 4 receivers on a LAN of 100 Mbit/s, a file that is short", size: 100_000, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, 4, 0) },
	},
	{
		name: "switch4long", about: "multicast to 4 receivers on a LAN of 100 Mbit/s, a longer file", size: 100_000_000, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, 4, 0) },
	},
	losing("lossy1low", 1, 0.001, 20_000_000),
	losing("lossy4low", 4, 0.001, 20_000_000),
	losing("lossy8low", 8, 0.001, 20_000_000),
	losing("lossy16low", 16, 0.001, 20_000_000),
	losing("lossy1", 1, 0.01, 20_000_000),
	losing("lossy4", 4, 0.01, 20_000_000),
	losing("lossy8", 8, 0.01, 20_000_000),
	losing("lossy16", 16, 0.01, 20_000_000),
	losing("lossy8long", 8, 0.01, 100_000_000),
	losing("lossy1high", 1, 0.05, 20_000_000),
	losing("lossy4high", 4, 0.05, 20_000_000),
	losing("lossy8high", 8, 0.05, 20_000_000),
	losing("lossy16high", 16, 0.05, 20_000_000),
	{
		name: "mixed4", about: "multicast to 4 receivers, of which the last has 2 Mbit/s and the others 100", size: 4_000_000, tools: append(slices.Clone(group), detach), queue: true,
		build: func(seed uint64) *network { return slowest(seed, 4) },
	},
	{
		name: "mixed4queue", about: "multicast to 4 receivers, of which the last has 2 Mbit/s and room for 64 packets, and the others 100", size: 4_000_000, tools: append(slices.Clone(group), detach), queue: true,
		build: func(seed uint64) *network { return slowest(seed, 64) },
	},
	{
		name: "changed4", about: "what has changed in a directory, to 4 receivers on a LAN of 100 Mbit/s, an agent beside each",
		size: 64 * link.MiB, directory: true, tools: updates, base: "groupcast (tls)",
		build: func(seed uint64) *network { return onEach(seed, slices.Repeat([]link.Rate{100 * link.Mbit}, 4)...) },
	},
}

// losing is a place in which cables lose packets at random: a LAN of 100 Mbit/s.
func losing(name string, receivers int, loss float64, size link.Bytes) place {
	return place{
		name: name, about: fmt.Sprintf("multicast to %d on a LAN of 100 Mbit/s that loses %g %% on each cable, %d MB", receivers, 100*loss, size/1_000_000), size: size, tools: group,
		build: func(seed uint64) *network { return lossyLAN(seed, receivers, loss) },
		clean: func(seed uint64) *network { return lossyLAN(seed, receivers, 0) },
	}
}

// among returns the tools that are compared in a place.
func (p place) among(tools []tool.Tool) []tool.Tool {
	var chosen []tool.Tool
	for _, t := range tools {
		if slices.Contains(p.tools, t.Name()) || len(p.tools) == 0 && !slices.Contains(special, t.Name()) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

// onLAN is a switch with a cable to every receiver, and one to the sender that is like the first of
// them. Agents run beside the first receivers, and each is near its share of the receivers.
func onLAN(seed uint64, rates []link.Rate, agents int) *network {
	return onLossyLAN(seed, rates, agents, 0)
}

// lossyLAN is a LAN of 100 Mbit/s whose cables to the receivers lose a share of the packets.
func lossyLAN(seed uint64, receivers int, loss float64) *network {
	return onLossyLAN(seed, slices.Repeat([]link.Rate{100 * link.Mbit}, receivers), 1, loss)
}

func onLossyLAN(seed uint64, rates []link.Rate, agents int, loss float64) *network {
	n := begin(seed, rates[0])
	lan := n.LAN("lan")
	n.sender = n.Host("sender")
	n.uplink = n.cable(n.sender, lan, n.rate, 0).From(n.sender)
	n.receivers = n.Hosts("receiver", len(rates))
	n.agents = n.receivers[:agents]
	for i, receiver := range n.receivers {
		n.cables = append(n.cables, n.cable(receiver, lan, rates[i], loss).From(lan))
		n.zones[receiver] = n.agents[i%agents].Name()
	}
	return n
}

// cable is an Ethernet cable that the kernel shapes, so that processors are left for the tools; of rate 0, one as fast as the machine.
func (n *network) cable(host *lab.Host, lan *lab.LAN, rate link.Rate, loss float64) *lab.Link {
	if rate == 0 {
		return n.Link(host, lan, link.Shape{})
	}
	return n.Link(host, lan, link.Shape{Rate: rate, Queue: queueOf(rate), Loss: loss}).ByKernel()
}

// slowest is an emulated LAN of 100 Mbit/s with four receivers, of which the last has 2 Mbit/s and a queue of so many packets.
func slowest(seed uint64, queue int) *network {
	n := begin(seed, 100*link.Mbit)
	lan := n.LAN("lan")
	fast := link.Shape{Rate: n.rate, Delay: 100 * time.Microsecond, Queue: queueOf(n.rate)}
	slow := fast
	slow.Rate, slow.Queue = 2*link.Mbit, link.Packets(queue)
	n.sender = n.Host("sender")
	n.uplink = n.Link(n.sender, lan, fast).From(n.sender)
	n.receivers = n.Hosts("receiver", 4)
	for i, receiver := range n.receivers {
		n.cables = append(n.cables, n.Link(receiver, lan, []link.Shape{fast, fast, fast, slow}[i]).From(lan))
	}
	return n
}

// onEach is a LAN with an agent beside every receiver.
func onEach(seed uint64, rates ...link.Rate) *network {
	n := onLAN(seed, rates, len(rates))
	for _, receiver := range n.receivers {
		n.zones[receiver] = "lan"
	}
	return n
}

func begin(seed uint64, rate link.Rate) *network {
	n := &network{Lab: lab.New(seed), rate: rate, zones: map[*lab.Host]string{}}
	n.manager = n.Host("manager")
	return n
}

// figure5 is the topology of 000 §IV-A with a number of members in each network, and an agent at each router.
func figure5(seed uint64, members int, rate link.Rate, delay time.Duration) *network {
	n := begin(seed, rate)
	edge := link.Shape{Rate: n.rate, Delay: 10 * time.Millisecond, Queue: queueOf(rate)}
	trunk := edge
	trunk.Delay = delay
	sa1, sa2 := n.Router("SA1"), n.Router("SA2")
	n.agents = []*lab.Host{sa1, sa2}
	n.zones[sa1], n.zones[sa2] = sa1.Name(), sa2.Name()
	n.Link(sa1, sa2, trunk)
	n.sender = n.Host("ma1")
	n.uplink = n.Link(n.sender, sa1, edge).From(n.sender)
	for i, router := range []*lab.Host{sa1, sa2, sa2} {
		for _, member := range n.Hosts(fmt.Sprintf("m%c", 'b'+i), members) {
			n.Link(member, router, edge)
			n.zones[member] = router.Name()
			n.receivers = append(n.receivers, member)
		}
	}
	return n
}

// slowOne is a star around a router with an agent. The last receiver has a tenth of the rate of the others.
func slowOne(seed uint64) *network {
	n := begin(seed, 100*link.Mbit)
	router := n.Router("router")
	n.agents = []*lab.Host{router}
	n.zones[router] = router.Name()
	edge := link.Shape{Rate: n.rate, Delay: time.Millisecond, Queue: queueOf(n.rate)}
	n.sender = n.Host("sender")
	n.uplink = n.Link(n.sender, router, edge).From(n.sender)
	n.receivers = n.Hosts("receiver", 4)
	for i, receiver := range n.receivers {
		shape := edge
		if i == len(n.receivers)-1 {
			shape.Rate = n.rate / 10
		}
		n.Link(receiver, router, shape)
		n.zones[receiver] = router.Name()
	}
	return n
}
