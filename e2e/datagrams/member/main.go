// Command member sends or receives one stream in datagrams, and says on standard output
// how that went.
//
// A sender sends datagrams of a size at an interval, each with its number and the time,
// and then prints one line:
//
//	sent COUNT
//
// A receiver prints the number and the age of each datagram, and at the end its account:
//
//	got NUMBER MICROSECONDS
//	account RECEIVED RECOVERED LATE LOST
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var join sdk.Join
	var options sdk.SendOptions
	var source ticking
	flag.StringVar(&join.Group, "group", "", "group to join")
	flag.StringVar(&join.Name, "as", "", "name of the member")
	flag.StringVar(&join.Node, "node", "", "node of the member")
	zone := flag.String("zone", "", "zone of the member")
	flag.IntVar(&source.left, "send", 0, "how many datagrams to send; zero receives")
	flag.IntVar(&source.size, "size", 500, "bytes of a datagram")
	flag.DurationVar(&source.interval, "interval", 10*time.Millisecond, "time between two datagrams")
	flag.DurationVar(&options.Datagrams.Fresh, "fresh", 0, "how old a datagram may be")
	flag.IntVar(&options.Datagrams.ParityData, "data", 0, "datagrams that parity is made for")
	flag.IntVar(&options.Datagrams.ParityShards, "parity", 0, "datagrams of parity for them")
	flag.Parse()
	join.Labels, join.Roles = map[string]string{"zone": *zone}, []sdk.Role{sdk.Receive}
	if source.left > 0 {
		join.Roles = []sdk.Role{sdk.Send}
	}
	client, err := sdk.Open(os.Getenv("GROUPCAST_CONFIG"))
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.Join(ctx, join)
	if err != nil {
		return err
	}
	if source.left > 0 {
		return send(ctx, session, &source, options)
	}
	return receive(ctx, session)
}

func send(ctx context.Context, session *sdk.Session, source *ticking, options sdk.SendOptions) error {
	out, err := session.SendDatagrams(ctx, source, options)
	if err != nil {
		return err
	}
	ended, err := out.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Println("sent", ended.Datagrams)
	for _, l := range ended.Measurements.Links {
		if l.Datagrams != nil {
			fmt.Println("link", l.From, l.To, l.Datagrams.Sent, l.Datagrams.Held, l.Datagrams.Lost, l.Datagrams.Trips)
		}
	}
	return session.Leave(ctx)
}

// ticking gives a datagram at every interval. If it is read late, those that were due meanwhile
// come at once, as from a source that does not wait.
type ticking struct {
	left     int
	size     int
	interval time.Duration
	next     time.Time
	number   uint64
}

var _ io.Reader = (*ticking)(nil)

// Read returns the next datagram when it is due.
func (t *ticking) Read(to []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	now := time.Now()
	if t.next.IsZero() {
		t.next = now
	}
	if wait := t.next.Sub(now); wait > 0 {
		time.Sleep(wait)
	}
	payload := to[:min(t.size, len(to))]
	clear(payload)
	binary.BigEndian.PutUint64(payload, t.number)
	binary.BigEndian.PutUint64(payload[8:], uint64(t.next.UnixNano()))
	t.left--
	t.number++
	t.next = t.next.Add(t.interval)
	return len(payload), nil
}

// receive receives one stream.
func receive(ctx context.Context, session *sdk.Session) error {
	to := &log{to: bufio.NewWriter(os.Stdout)}
	for arrived, err := range session.Receive(ctx, sdk.ReceiveOptions{Stream: func(sdk.Incoming) (sdk.StreamWriter, error) { return to, nil }}) {
		if err == nil {
			err = arrived.Err
		}
		if err != nil {
			return err
		}
		c := arrived.Datagrams
		if c == nil {
			return errors.New("the stream was none in datagrams")
		}
		fmt.Fprintln(to.to, "account", c.Received, c.Recovered, c.Late, c.Lost)
		break
	}
	return errors.Join(to.to.Flush(), session.Leave(ctx))
}

// log notes what comes, and when.
type log struct{ to *bufio.Writer }

func (l *log) Write(payload []byte) (int, error) {
	age := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(payload[8:]))))
	fmt.Fprintln(l.to, "got", binary.BigEndian.Uint64(payload), age.Microseconds())
	return len(payload), nil
}

func (l *log) Close() error { return nil }
