// Command member is a member of a group that receives, and sends when it is told to. It reads one
// command per line from standard input:
//
//	send   deliver the file to the group, when its turn comes; or, as part of one lasting
//	       stream, hand it to that
//	count  print what was received and what became of what was sent
//
// What has arrived is removed: it is counted, not kept.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

// member is a session and what went through it.
type member struct {
	session *sdk.Session
	file    string
	into    string
	options sdk.SendOptions
	turns   chan struct{} // its capacity is how many deliveries may be sent at once
	stream  *backlog      // of a lasting stream; nil if every send is a delivery

	mu    sync.Mutex
	count tally
}

// tally says what became of deliveries.
type tally struct {
	arrived                                       int64 // bytes
	lost, waiting, running, complete, unfulfilled int   // deliveries
}

func run(ctx context.Context) error {
	var join sdk.Join
	m := &member{}
	flag.StringVar(&join.Group, "group", "", "group to join")
	flag.StringVar(&join.Name, "as", "", "name of the member")
	zone := flag.String("zone", "", "zone of the member")
	flag.StringVar(&m.file, "file", "", "file to send")
	flag.StringVar(&m.into, "into", "", "directory to receive in")
	ahead := flag.Int("ahead", 1, "how many deliveries may be sent at once")
	flag.StringVar((*string)(&m.options.Congestion), "congestion", "reno", "congestion control")
	lasting := flag.Bool("lasting", false, "send all as one stream, over connections that last")
	flag.Parse()
	if *lasting {
		m.stream = newBacklog()
	}
	join.Node, join.Labels = "host-"+join.Name, map[string]string{"zone": *zone}
	m.turns = make(chan struct{}, *ahead)
	m.options.Keep = time.Second

	if err := os.MkdirAll(m.into, 0o755); err != nil {
		return err
	}
	client, err := sdk.Open(os.Getenv("GROUPCAST_CONFIG"))
	if err != nil {
		return err
	}
	defer client.Close()
	if m.session, err = client.Join(ctx, join); err != nil {
		return err
	}
	go m.receive(ctx)
	return m.obey(ctx, os.Stdin)
}

func (m *member) obey(ctx context.Context, from io.Reader) error {
	sends := 0
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		switch lines.Text() {
		case "send":
			if m.stream != nil {
				if err := m.extend(ctx); err != nil {
					return err
				}
				continue
			}
			sends++
			m.note(func(t *tally) { t.waiting++ })
			go m.send(ctx, fmt.Sprintf("%s-%d", m.session.Member().Name, sends))
		case "count":
			if err := m.print(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("told to %q", lines.Text())
		}
	}
	return lines.Err()
}

func (m *member) note(change func(*tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.count)
}

func (m *member) print() error {
	under, err := m.underWay()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.count
	_, err = fmt.Printf("received %d lost %d waiting %d running %d complete %d unfulfilled %d\n",
		t.arrived+under, t.lost, t.waiting, t.running, t.complete, t.unfulfilled)
	return err
}

// underWay returns how much there is of what has not arrived completely: below the directory for
// partial objects and, for streams, in the directory itself.
func (m *member) underWay() (bytes int64, err error) {
	err = filepath.WalkDir(m.into, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		state, err := entry.Info()
		if err == nil {
			bytes += state.Size()
		}
		return ignoreGone(err)
	})
	return bytes, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (m *member) receive(ctx context.Context) {
	for arrived, err := range m.session.Receive(ctx, sdk.ReceiveOptions{Into: m.into}) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "receive:", err)
			return
		}
		if arrived.Err != nil {
			fmt.Fprintf(os.Stderr, "receive %s: %v\n", arrived.Name, arrived.Err)
			m.note(func(t *tally) { t.lost++ })
			continue
		}
		m.note(func(t *tally) { t.arrived += int64(arrived.Bytes) })
		_ = os.Remove(arrived.Path)
	}
}

// send delivers the file when it is its turn. The next file's turn comes when this one has been sent.
func (m *member) send(ctx context.Context, name string) {
	m.turns <- struct{}{}
	options := m.options
	options.Name = name
	m.note(func(t *tally) { t.waiting--; t.running++ })
	out, err := m.session.Send(ctx, m.file, options)
	if err != nil {
		fmt.Fprintf(os.Stderr, "send %s: %v\n", name, err)
		<-m.turns
		m.note(func(t *tally) { t.running--; t.unfulfilled++ })
		return
	}
	pass := sync.OnceFunc(func() { <-m.turns })
	var last sdk.Delivery
	for delivery, err := range out.Progress(ctx) {
		if err != nil {
			fmt.Fprintf(os.Stderr, "send %s: %v\n", name, err)
			break
		}
		if last = delivery; delivery.SentBytes >= delivery.Length {
			pass()
		}
	}
	pass()
	m.note(func(t *tally) {
		t.running--
		if last.State == sdk.DeliveryComplete {
			t.complete++
		} else {
			t.unfulfilled++
		}
	})
}
