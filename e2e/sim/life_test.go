package sim

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/sdk"
)

var update = flag.Bool("update", false, "write testdata/life.txt")

// The life of a byte: a delivery of 200 kB to two members over two agents, as shown in ARCHITECTURE.md.
func TestLifeOfAByte(t *testing.T) {
	dir := scratch(t)
	tape := new(tape)
	synctest.Test(t, func(t *testing.T) { record(t, dir, tape) })
	got := tape.String()
	golden := filepath.Join("testdata", "life.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("go test ./e2e/sim -run LifeOfAByte -update writes this:\n%swant:\n%s", got, want)
	}
}

// ARCHITECTURE.md shows lines of that run, in their order.
func TestLifeOfAByteIsThatOfTheArchitecture(t *testing.T) {
	life, err := os.ReadFile(filepath.Join("testdata", "life.txt"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	rest, shown := string(life), 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, " ms  ") {
			continue
		}
		_, after, found := strings.Cut(rest, line+"\n")
		if !found {
			t.Errorf("no line of the run follows the others with %q", line)
			continue
		}
		rest, shown = after, shown+1
	}
	if shown < 10 {
		t.Errorf("%d lines are shown", shown)
	}
}

func record(t *testing.T, dir string, tape *tape) {
	s := scenario{
		agents:     []place{{"a1", "a1", "x", 1 << 20}, {"a2", "a2", "y", 1 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop, DataPlane: sdk.Plaintext},
		deliveries: []parcel{{name: "object-0", size: 200_000}},
	}
	w := newWorld(t, s, dir)
	w.tape = tape
	defer w.say()
	defer w.operator.Close()
	defer w.stopAll()
	w.populate()
	time.Sleep(10 * time.Second) // until all have measured each other: they do not do so again for a minute
	w.network.ShapeAll(simnet.Shape{Latency: 5 * time.Millisecond})
	w.network.Shape(senderHost, "a1", simnet.Shape{Latency: 5 * time.Millisecond, Rate: 1_000_000})
	for _, way := range [][2]string{{"a1", "a2"}, {"a2", "a1"}} {
		w.network.Shape(way[0], way[1], simnet.Shape{Latency: 20 * time.Millisecond})
	}
	path := w.write(s.deliveries[0])
	tape.begin()
	tape.say(senderHost, managerHost, "create")
	out := w.send(s.deliveries[0], path)
	tape.say(managerHost, senderHost, "created, with a tree: sender > a1 > r1, a2 > r2")
	w.follow(out.ID())
	time.Sleep(2 * time.Second)
}

// follow notes what the manager knows of a delivery, as it learns it.
func (w *world) follow(id string) {
	time.Sleep(50 * time.Millisecond) // whether it is sealed at once is a matter of chance
	sealed := false
	complete := make(map[string]bool)
	for delivery, err := range w.operator.WatchDelivery(context.Background(), id) {
		w.must(err)
		if delivery.Sealed && !sealed {
			sealed = true
			w.tape.say("operator", "", "sees it sealed: length and root are known")
		}
		for _, receipt := range delivery.Receipts {
			if receipt.State == sdk.ReceiptComplete && !complete[receipt.Member] {
				complete[receipt.Member] = true
				w.tape.say("operator", "", "sees the receipt of "+receipt.Member+": complete")
			}
		}
		if delivery.State != sdk.DeliveryRunning {
			w.tape.say("operator", "", "sees the delivery "+string(delivery.State))
		}
	}
}

// tape keeps what happens, with the times.
type tape struct {
	mu     sync.Mutex
	start  time.Time // zero before the recording begins
	events []event
}

type event struct {
	at             time.Duration
	from, to, text string
}

func (p *tape) begin() { p.start = time.Now() }

func (p *tape) say(from, to, text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.start.IsZero() {
		p.events = append(p.events, event{time.Since(p.start), from, to, text})
	}
}

// whoEnds is the column at which a line says what happens.
const whoEnds = len("   0 ms  ") + 16

// String returns a line per event; of frames that repeat on a link, the first and the last are shown.
func (p *tape) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	repeats := func(e event) string {
		for _, kind := range []string{"DATA", "ACK", "CREDIT", "STATUS"} {
			if strings.HasPrefix(e.text, kind) {
				return e.from + e.to + kind
			}
		}
		return ""
	}
	last := make(map[string]int)
	for i, e := range p.events {
		last[repeats(e)] = i
	}
	seen := make(map[string]bool)
	var lines []string
	for i, e := range p.events {
		kind := repeats(e)
		if kind != "" && (seen[kind] && last[kind] != i || strings.HasPrefix(e.text, "STATUS")) {
			continue
		}
		seen[kind] = true
		who := e.from
		if e.to != "" {
			who += " > " + e.to
		}
		lines = append(lines, fmt.Sprintf("%4d ms  %-16s  %s\n", e.at.Milliseconds(), who, e.text))
	}
	// What several hosts do in the same millisecond has no order of its own.
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:whoEnds], b[:whoEnds]) })
	return strings.Join(lines, "")
}

// linkPort is where agents listen.
const linkPort = "7410"

// wrap makes the frames be noted that this end of a link writes.
func (p *tape) wrap(conn net.Conn) net.Conn {
	local, at, _ := net.SplitHostPort(conn.LocalAddr().String())
	remote, to, _ := net.SplitHostPort(conn.RemoteAddr().String())
	if p == nil || at != linkPort && to != linkPort {
		return conn
	}
	if to == linkPort {
		p.say(local, remote, "dials")
	}
	return &tapped{Conn: conn, tape: p, from: local, to: remote}
}

// tapped is one end of a link on tape.
type tapped struct {
	net.Conn
	tape     *tape
	from, to string
	pending  []byte // of an incomplete header
	skip     int    // bytes until the next header
}

func (c *tapped) Write(data []byte) (int, error) {
	c.pending = append(c.pending, data...)
	for {
		passed := min(c.skip, len(c.pending))
		c.pending, c.skip = c.pending[passed:], c.skip-passed
		if !c.next() {
			return c.Conn.Write(data)
		}
	}
}

// next takes the next header: of a TLS record while the link opens, and of a frame after that. It
// returns false if there is none yet.
func (c *tapped) next() bool {
	const recordHeader, firstRecord, lastRecord = 5, 20, 23
	switch {
	case c.skip > 0 || len(c.pending) < recordHeader:
		return false
	case c.pending[0] >= firstRecord && c.pending[0] <= lastRecord:
		c.skip = recordHeader + int(c.pending[3])<<8 + int(c.pending[4])
		return true
	case len(c.pending) < wire.HeaderSize:
		return false
	}
	header, err := wire.ParseHeader(c.pending)
	if err != nil {
		c.tape.say(c.from, c.to, err.Error())
	}
	c.skip = wire.HeaderSize + int(header.Length)
	c.tape.say(c.from, c.to, describe(header))
	return true
}

func describe(header wire.Header) string {
	switch header.Type {
	case wire.Data:
		return fmt.Sprintf("DATA %d–%d", header.Offset, header.Offset+uint64(header.Length))
	case wire.Ack:
		return fmt.Sprintf("ACK %d %s", header.Offset, levels[header.Level])
	case wire.End:
		return fmt.Sprintf("END %d", header.Offset)
	}
	if header.Offset == wire.MaxOffset {
		return fmt.Sprintf("%v without limit", header.Type)
	}
	return fmt.Sprintf("%v %d", header.Type, header.Offset)
}

var levels = map[wire.Level]string{wire.Relayed: "RELAYED", wire.Received: "RECEIVED", wire.Durable: "DURABLE"}
