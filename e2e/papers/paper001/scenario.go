package paper001

import (
	"strings"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/bytesize"
)

// scenario is one of the thesis's scenarios, with uploads to the product's gatherer instead of
// downloads. All times are the thesis's.
type scenario struct {
	about  string // what is different from the thesis, in Markdown
	access link.Rate
	buffer link.Bytes
	// routers are links before the access link's router, counted from one.
	routers []link.Shape
	long    []bulk
	short   shorts
	udp     []broadcast
	until   time.Duration
	best    []phase
}

// bulk is an endless upload in a group.
type bulk struct {
	name, group string
	delay       time.Duration
	router      int
	from, until time.Duration
}

// shorts are uploads of 30 KB from one host, if any.
type shorts struct {
	name  string
	delay time.Duration
	idle  int // how many to make one after another before everything else
	from  time.Duration
	count int
}

// broadcast is a host that sends UDP, over the access link unless past is set.
type broadcast struct {
	name     string
	router   int
	past     bool
	schedule []traffic.Period
}

// phase is a time in which nothing changes, with what the groups have at best then, including the packets' headers.
type phase struct {
	from, until time.Duration
	groups      map[string]link.Rate
}

// total returns what the access link carries at best.
func (p phase) total() (sum link.Rate) {
	for _, rate := range p.groups {
		sum += rate
	}
	return sum
}

// everyone lists the controllers that are compared, in the order in which they run, two at a time.
var everyone = []string{window.Groupcast, window.Traditional, window.Proposed, window.Spring, window.Mehra}

const (
	// usualScale is how many seconds of the thesis a second stands for, if no duration is given.
	usualScale = 5
	// check is how often the thesis compares round trips (001 §4.1.1).
	check = 5 * time.Second
)

// scale returns how many seconds of the thesis a second of the run stands for.
func (s scenario) scale(options experiment.Options) float64 {
	if options.Duration > 0 {
		return s.until.Seconds() / options.Duration.Seconds()
	}
	return usualScale
}

// network returns the scenario as a case. What the thesis does every five seconds is done more
// often, in proportion as time is shortened.
func (s scenario) network(controller string, seed uint64, scale float64) gathering.Case {
	c := gathering.Case{
		Seed: seed, Controller: controller, Congestion: "reno", Routers: s.routers,
		Access: link.Shape{Rate: s.access, Queue: link.Size(s.buffer)},
		Flags:  []string{"--check-interval", time.Duration(float64(check) / scale).String()},
	}
	if controller == window.Spring { // it is told the link (table 1)
		c.Policy.Link = bytesize.Size(s.access / 8)
	}
	for _, one := range s.long {
		c.Terminals = append(c.Terminals, gathering.Terminal{Name: strings.ToLower(one.name), Delay: one.delay, Router: one.router})
	}
	if s.short.count > 0 {
		c.Terminals = append(c.Terminals, gathering.Terminal{Name: strings.ToLower(s.short.name), Delay: s.short.delay})
	}
	for _, one := range s.udp {
		c.Others = append(c.Others, gathering.Other{Name: one.name, Delay: udpDelay, Router: one.router, Past: one.past})
	}
	return c
}

// udpDelay is the delay of UDP's senders, which the text does not give.
const udpDelay = 10 * time.Millisecond

// names returns the names of a group's uploads, or all if no group is given.
func (s scenario) names(group string) (names []string) {
	for _, one := range s.long {
		if group == "" || one.group == group {
			names = append(names, strings.ToLower(one.name))
		}
	}
	return names
}

// groups returns the groups in the order of their first uploads.
func (s scenario) groups() (groups []string) {
	seen := map[string]bool{}
	for _, one := range s.long {
		if !seen[one.group] {
			groups = append(groups, one.group)
		}
		seen[one.group] = true
	}
	return groups
}
