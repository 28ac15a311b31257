package paper002

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	algo "github.com/groupcast/groupcast/internal/algo/parallel"
)

// Children is the difference between the paper's first protocol and its enhancement.
var Children = experiment.Experiment{
	Paper: "002",
	Name:  "children",
	About: "section 3: packets that go to the Nth child after the first N-1 have them, and to all children at once",
	Run:   children,
}

// A parent has these children, each behind a link of its own. The paper gives no numbers.
const (
	childCount = 5
	childRate  = 20 * link.Mbit
	slowRate   = 1 * link.Mbit
	childDelay = 5 * time.Millisecond
	slowChild  = 1 // counted from 0
	packet     = 16 * link.KiB
	handedOut  = 1 * link.MiB
)

// family is a parent and its children.
type family struct {
	*lab.Lab
	parent   *lab.Host
	children []*lab.Host
}

func newFamily(seed uint64) *family {
	f := &family{Lab: lab.New(seed)}
	f.parent = f.Host("parent")
	f.children = f.Hosts("child", childCount)
	for i, child := range f.children {
		shape := link.Shape{Rate: childRate, Delay: childDelay, Queue: link.Packets(50)}
		if i == slowChild {
			shape.Rate = slowRate
		}
		f.Link(f.parent, child, shape)
	}
	return f
}

func children(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	f := newFamily(options.Seed)
	defer f.Close()
	if err := f.Start(); err != nil {
		return nil, err
	}
	inTurn, err := f.inTurn(ctx)
	if err != nil {
		return nil, fmt.Errorf("in turn: %w", err)
	}
	atOnce, err := f.atOnce(ctx)
	if err != nil {
		return nil, fmt.Errorf("at once: %w", err)
	}
	return reportChildren(options, inTurn, atOnce), nil
}

// inTurn is the paper's first protocol: "the packet can only be sent to the Nth host after first
// N-1 hosts have received the packet" (§3).
func (f *family) inTurn(ctx context.Context) (took []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	conns := make([]net.Conn, childCount)
	for i, child := range f.children {
		if conns[i], err = f.reach(ctx, child, &receiving); err != nil {
			return nil, err
		}
		defer conns[i].Close()
	}
	took = make([]time.Duration, childCount)
	start, block := time.Now(), make([]byte, packet)
	for range handedOut / packet {
		for i, conn := range conns {
			if err := hand(conn, block); err != nil {
				return nil, fmt.Errorf("%s: %w", f.children[i].Name(), err)
			}
			took[i] = time.Since(start)
		}
	}
	return took, nil
}

// hand sends a packet and waits until the other end has it.
func hand(conn net.Conn, block []byte) error {
	if _, err := conn.Write(block); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, block[:1])
	return err
}

// reach connects to a child that confirms each packet.
func (f *family) reach(ctx context.Context, child *lab.Host, receiving *sync.WaitGroup) (net.Conn, error) {
	listener, err := child.Listen(ctx, "tcp4", child.At(port))
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	conn, err := f.parent.Dial(ctx, "tcp4", child.At(port), lab.Congestion(congestion))
	if err != nil {
		return nil, err
	}
	accepted, err := listener.Accept()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { accepted.Close() })
	receiving.Go(func() {
		defer stop()
		defer accepted.Close()
		block := make([]byte, packet)
		for err == nil {
			if _, err = io.ReadFull(accepted, block); err == nil {
				_, err = accepted.Write(block[:1])
			}
		}
	})
	return conn, nil
}

// atOnce is "parallel packet distribution between a host and its direct children" (§3): a link of
// the product for each child, with a source of its own.
func (f *family) atOnce(ctx context.Context) ([]time.Duration, error) {
	took, errs := make([]time.Duration, childCount), make([]error, childCount)
	var feeding sync.WaitGroup
	for i, child := range f.children {
		one := &trial{from: f.parent, to: child, port: linkPort + uint16(i), congestion: congestion, bounds: algo.Bounds{Least: 1, Most: 1}, size: handedOut}
		feeding.Go(func() { took[i], errs[i] = one.run(ctx) })
	}
	feeding.Wait()
	return took, errors.Join(errs...)
}

func reportChildren(options experiment.Options, inTurn, atOnce []time.Duration) *measure.Result {
	r := &measure.Result{
		Title:  "Paper 002, distribution to children",
		Seed:   options.Seed,
		Origin: options.Origin,
		About: fmt.Sprintf(`A parent hands 1 MiB to %d children behind links of their own: %v and %v each way, but for the second, which has %v.
In turn: each packet of %d KiB goes to a child when those before it have acknowledged it, as in the paper's first protocol. At once: a link of the
product's for each child, TLS handshakes included.`, childCount, childRate, childDelay, slowRate, packet/link.KiB),
	}
	table := measure.Table{Title: "When each child had all, in seconds", Columns: []string{"child", "its link", "in turn", "at once"}}
	turn, once := measure.Series{Name: "in turn"}, measure.Series{Name: "at once"}
	chart := measure.Chart{File: "children", Title: "When each child had all", Kind: measure.Columns, Y: measure.Axis{Label: "Time [s]"}}
	for i := range childCount {
		rate := childRate
		if i == slowChild {
			rate = slowRate
		}
		table.Rows = append(table.Rows, []string{fmt.Sprint(i + 1), rate.String(), measure.Short(inTurn[i].Seconds()), measure.Short(atOnce[i].Seconds())})
		turn.Points = append(turn.Points, measure.Point{X: float64(i), Y: inTurn[i].Seconds()})
		once.Points = append(once.Points, measure.Point{X: float64(i), Y: atOnce[i].Seconds()})
		chart.Categories = append(chart.Categories, fmt.Sprint(i+1))
	}
	chart.Series = []measure.Series{turn, once}
	r.Tables, r.Charts = []measure.Table{table}, []measure.Chart{chart}
	return r
}
