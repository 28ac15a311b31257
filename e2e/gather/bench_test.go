package gather_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/sdk/gather"
)

// cable is a gatherer on one host and clients on another, with a plain virtual cable between them.
// Its segments have the size of those in a network, as the gatherer sets its windows by them.
type cable struct {
	testing.TB
	fleet           *fleet.Fleet
	server, clients *lab.Host
	gatherer        *lab.Process
	store           string
}

func wire(b testing.TB, dir string, policy gather.Policy, flags ...string) *cable {
	b.Helper()
	l := labtest.New(b, 1)
	c := &cable{TB: b, server: l.Host("server"), clients: l.Host("clients"), store: filepath.Join(dir, "gathered")}
	manager := l.Host("manager")
	l.Link(c.clients, c.server, link.Shape{})
	labtest.Start(b, l)
	var err error
	c.fleet, err = fleet.Start(b.Context(), manager)
	b.Cleanup(func() {
		if c.fleet != nil {
			c.fleet.Close()
		}
	})
	c.must(err)
	c.gatherer, err = c.fleet.Gatherer(b.Context(), c.server, policy, append([]string{"--store-dir", c.store}, flags...)...)
	c.must(err)
	return c
}

func (c *cable) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cable) client(name string) *gather.Client {
	c.Helper()
	client, err := c.fleet.Uploader(c.Context(), fleet.Dialer{Host: c.clients}, c.server, name)
	c.must(err)
	return client
}

// used returns how much processor time the gatherer has used.
func (c *cable) used() time.Duration {
	c.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.gatherer.Pid()))
	c.must(err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	c.must(err)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}

// sensor is a stream that says a little every now and then, until it falls silent.
type sensor struct {
	ctx    context.Context
	silent <-chan struct{}
}

func (s sensor) Read(p []byte) (int, error) {
	next := time.After(sensorPause)
	select {
	case <-s.silent:
		<-s.ctx.Done()
	case <-next:
	case <-s.ctx.Done():
	}
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n := min(len(p), sensorPiece)
	clear(p[:n])
	return n, nil
}

// arrival is the time between the arrivals of two clients.
const arrival = 60 * time.Millisecond

// A sensor sends 5 KB/s.
const sensorPause, sensorPiece = 400 * time.Millisecond, 2000

// 500 clients have 4 connections each, and all of these send. A round of the controller should take less than 20
// ms, and the controller less than a tenth of a core, both in wall time, which is more than processor time. What a
// gatherer does apart from that when nobody sends anything is also reported in percent of a core.
func BenchmarkRound(b *testing.B) {
	const clients, connections, rounds = 500, 4, 20
	for b.Loop() {
		c := wire(b, memory(b), gather.Policy{Default: gather.Share{Target: 4 * 5000, Minimum: 5000}})
		ctx, stop := context.WithCancel(b.Context())
		silent := make(chan struct{})
		var living sync.WaitGroup
		for i := range clients {
			client := c.client(fmt.Sprint("c", i))
			pause(arrival) // a gatherer opens no more than 64 links from one address at a time
			living.Go(func() { c.sense(ctx, client, connections, silent) })
		}
		operator := c.client("")
		c.settle(operator, clients*connections)
		before, start := c.used(), time.Now()
		took := c.rounds(operator, rounds)
		busy := (c.used() - before).Seconds() / time.Since(start).Seconds()
		close(silent)
		c.rounds(operator, 4)
		before, start = c.used(), time.Now()
		c.rounds(operator, rounds)
		quiet := (c.used() - before).Seconds() / time.Since(start).Seconds()
		stop()
		living.Wait()
		operator.Close()
		mean := measure.Series{}
		for _, one := range took {
			mean.Points = append(mean.Points, measure.Point{Y: one})
		}
		b.ReportMetric(1e3*measure.Median(took), "ms/round-median")
		b.ReportMetric(1e3*measure.Quantile(took, 1), "ms/round-longest")
		b.ReportMetric(100*mean.Mean()/.5, "%core-controller")
		b.ReportMetric(100*busy, "%core-gatherer-receiving")
		b.ReportMetric(100*quiet, "%core-gatherer-silent")
	}
	b.ReportMetric(0, "ns/op")
}

// sense makes a client upload so many streams, each over a connection of its own, until ctx is done.
func (c *cable) sense(ctx context.Context, client *gather.Client, streams int, silent <-chan struct{}) {
	defer client.Close()
	var running sync.WaitGroup
	for i := range streams {
		running.Go(func() {
			open := func(uint64) (io.Reader, error) { return sensor{ctx, silent}, nil }
			if _, err := client.UploadStream(ctx, open, gather.StreamOptions{Path: fmt.Sprint("stream", i)}); ctx.Err() == nil {
				c.Errorf("a sensor's stream: %v", err)
			}
		})
	}
	running.Wait()
}

// settle waits until there have been so many connections for a while.
func (c *cable) settle(operator *gather.Client, connections int) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 3*patience)
	defer cancel()
	calm := 0
	sum := 0
	for round, err := range operator.Watch(ctx) {
		if err != nil {
			c.Fatalf("%d of %d connections: %v", sum, connections, err)
		}
		sum = 0
		for _, one := range round.Clients {
			sum += one.Connections
		}
		if calm++; sum != connections {
			calm = 0
		}
		if calm == 6 {
			return
		}
	}
}

// rounds returns how many seconds each of the next rounds took.
func (c *cable) rounds(operator *gather.Client, n int) (took []float64) {
	c.Helper()
	for round, err := range operator.Watch(c.Context()) {
		c.must(err)
		if took = append(took, round.Took.Seconds()); len(took) == n {
			break
		}
	}
	return took
}

// A gatherer, which syncs everything to disk before it acknowledges it, is compared with iperf3, which keeps
// nothing, and with the disk, by writing and syncing a plain file. They run one after another over the same
// cable, unlimited and at 1 Gbit/s, with TLS and in plaintext. TMPDIR chooses the disk.
func BenchmarkIntake(b *testing.B) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.Fatalf("iperf3 is what a gatherer is compared with: install it (%v)", err)
	}
	for _, one := range []struct {
		name  string
		rate  string // of tc's tbf; none leaves the cable unlimited
		bytes int64
		flags []string
	}{
		{"1Gbit/TLS", "1gbit", 400 << 20, nil},
		{"1Gbit/plaintext", "1gbit", 400 << 20, []string{"--data-plaintext"}},
		{"cable/TLS", "", 1 << 30, nil},
		{"cable/plaintext", "", 1 << 30, []string{"--data-plaintext"}},
	} {
		b.Run(one.name, func(b *testing.B) {
			for b.Loop() {
				c := wire(b, b.TempDir(), gather.Policy{}, one.flags...)
				if one.rate != "" {
					c.bound(one.rate)
				}
				plain, disk := c.iperf(one.bytes), c.disk(one.bytes)
				file, stream := c.file(one.bytes), c.stream(one.bytes)
				b.ReportMetric(plain*8e-9, "Gbit/s-iperf3")
				b.ReportMetric(disk*8e-9, "Gbit/s-disk")
				b.ReportMetric(file*8e-9, "Gbit/s-file")
				b.ReportMetric(stream*8e-9, "Gbit/s-stream")
				b.ReportMetric(100*file/plain, "%iperf3-file")
				b.ReportMetric(100*stream/plain, "%iperf3-stream")
				b.ReportMetric(100*file/min(plain, disk), "%slower-file")
				b.ReportMetric(100*stream/min(plain, disk), "%slower-stream")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bound limits what the cable carries from the clients.
func (c *cable) bound(rate string) {
	c.Helper()
	device, err := c.clients.Interface()
	c.must(err)
	c.must(c.clients.Command("tc", "qdisc", "add", "dev", device.Name, "root", "tbf", "rate", rate, "burst", "512kb", "latency", "20ms").Run())
}

// iperf returns how many bytes per second iperf3 carries.
func (c *cable) iperf(bytes int64) float64 {
	c.Helper()
	server := c.server.Command("iperf3", "--server", "--one-off", "--forceflush")
	c.must(server.Start())
	for !strings.Contains(server.Output(), "listening") {
		select {
		case <-server.Ended():
			c.Fatalf("iperf3 has ended: %s", server.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	client := c.clients.Command("iperf3", "--client", c.server.Addr().String(), "--bytes", fmt.Sprint(bytes), "--json")
	if err := cmp.Or(client.Run(), server.Wait()); err != nil {
		c.Fatalf("iperf3: %v: %s", err, client.Output())
	}
	var said struct {
		End struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	c.must(json.Unmarshal([]byte(client.Output()), &said))
	return said.End.Received.BitsPerSecond / 8
}

// disk returns how many bytes per second of a plain file the gatherer's disk takes until all are synced.
func (c *cable) disk(bytes int64) float64 {
	c.Helper()
	content := random(2, int(bytes))
	file, err := os.Create(filepath.Join(filepath.Dir(c.store), "plain"))
	c.must(err)
	defer os.Remove(file.Name())
	start := time.Now()
	_, err = file.Write(content)
	c.must(cmp.Or(err, file.Sync(), file.Close()))
	return float64(bytes) / time.Since(start).Seconds()
}

// file returns how many bytes per second of a file arrive, until it is on the gatherer's disk under its name.
func (c *cable) file(bytes int64) float64 {
	c.Helper()
	dir := memory(c)
	name := filepath.Join(dir, "file")
	c.must(os.WriteFile(name, random(1, int(bytes)), 0o600))
	defer os.Remove(name)
	client := c.client("files")
	defer client.Close()
	c.attend(client)
	start := time.Now()
	_, err := client.Upload(c.Context(), name, gather.FileOptions{})
	c.must(err)
	return float64(bytes) / time.Since(start).Seconds()
}

// stream returns the same for a stream.
func (c *cable) stream(bytes int64) float64 {
	c.Helper()
	client := c.client("streams")
	defer client.Close()
	c.attend(client)
	start := time.Now()
	open := func(uint64) (io.Reader, error) { return io.LimitReader(zeros{}, bytes), nil }
	_, err := client.UploadStream(c.Context(), open, gather.StreamOptions{Path: "stream"})
	c.must(err)
	return float64(bytes) / time.Since(start).Seconds()
}

// attend makes sure that the client's control connection is open.
func (c *cable) attend(client *gather.Client) {
	c.Helper()
	_, err := client.Clients(c.Context())
	c.must(err)
}

// zeros is a reader of endless zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
