// Package links compares what the two ends of each link say that it carried: "byte-conservation
// counters balance" between neighbours, and not only within each.
package links

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Book holds what nodes have said about links: agents and members log a line for each link that has ended.
type Book struct {
	mu   sync.Mutex
	uses map[way]*use
}

// way says who feeds whom in a delivery, over any number of successive links.
type way struct{ delivery, from, to string }

// use says how a way was used. The parent says what it sent, and how much of that the child told it to have;
// the child says how much it received.
type use struct{ sent, landed, received uint64 }

// Write takes one line.
func (b *Book) Write(line []byte) (int, error) {
	if said := string(line); strings.Contains(said, `msg="a link was used"`) {
		b.note(said)
	}
	return len(line), nil
}

// Read takes all lines of a program's output.
func (b *Book) Read(text string) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		_, _ = b.Write(lines.Bytes())
	}
}

// pairs matches the attributes of a line whose values contain no space.
var pairs = regexp.MustCompile(`(\w+)=([^ "]+)`)

func (b *Book) note(line string) {
	said := make(map[string]string)
	for _, pair := range pairs.FindAllStringSubmatch(line, -1) {
		said[pair[1]] = pair[2]
	}
	number := func(key string) uint64 {
		n, _ := strconv.ParseUint(said[key], 10, 64)
		return n
	}
	self := cmp.Or(said["agent"], said["member"])
	b.mu.Lock()
	defer b.mu.Unlock()
	if child := strings.TrimPrefix(said["child"], "agent/"); child != "" { // agents of earlier versions say the name alone
		u := b.use(way{said["delivery"], self, child})
		u.sent += number("sent_bytes")
		u.landed += number("landed_bytes")
		return
	}
	b.use(way{said["delivery"], said["parent"], self}).received += number("received_bytes")
}

func (b *Book) use(w way) *use {
	if b.uses == nil {
		b.uses = make(map[way]*use)
	}
	if b.uses[w] == nil {
		b.uses[w] = &use{}
	}
	return b.uses[w]
}

// Received returns how many bytes a node says it received in a delivery, from all its parents.
func (b *Book) Received(delivery, to string) (bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w, u := range b.uses {
		if w.delivery == delivery && w.to == to {
			bytes += u.received
		}
	}
	return bytes
}

// Carried returns how many bytes came over all ways.
func (b *Book) Carried() (bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.uses {
		bytes += u.received
	}
	return bytes
}

// Check returns an error unless each child received what its parent sent. Only what was under way when a link
// broke may be lost, which is what the child never reported to have. Nothing is known of nodes that are mute in
// a delivery, such as those that were killed in it.
func (b *Book) Check(mute func(delivery, node string) bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var problems []string
	for w, u := range b.uses {
		if u.received > u.sent && !mute(w.delivery, w.from) || u.received < u.landed && !mute(w.delivery, w.to) {
			problems = append(problems, fmt.Sprintf("delivery %s: %s sent %d bytes to %s, which told it to have %d and received %d",
				w.delivery, w.from, u.sent, w.to, u.landed, u.received))
		}
	}
	slices.Sort(problems)
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "\n"))
}
