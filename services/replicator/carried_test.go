package replicator

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// carriage is a replication that session agents carry, of a file in the directory, and its sender.
type carriage struct {
	*testing.T
	ctx     context.Context
	client  *sdk.Client
	dir     string
	content []byte
	sender  *worker
	job     *job
	task    *replicav1.SendTask
}

// carries begins a replication, as yet to nobody.
func carries(t *testing.T, size int, rate uint64) *carriage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := &carriage{T: t, ctx: ctx, client: serve(t), dir: t.TempDir(), content: make([]byte, size)}
	_, _ = rand.Read(c.content) // it never fails
	source := filepath.Join(c.dir, "disk.img")
	c.must(os.WriteFile(source, c.content, 0o600))
	c.sender = c.worker("s")
	c.job = &job{ctx: ctx, sending: &replicav1.SendReport{Replication: "r"}}
	c.task = &replicav1.SendTask{Path: source, DeliveryGroup: "g", MaxBytesPerSecond: rate}
	t.Cleanup(func() {
		cancel()
		c.sender.working.Wait()
	})
	return c
}

// serve starts managers and an agent.
func serve(t *testing.T) *sdk.Client {
	t.Helper()
	binary := testprocess.Binary(t, "github.com/groupcast/groupcast/services/standalone/cmd/groupcast-standalone")
	data := filepath.Join(t.TempDir(), "data")
	server := exec.Command(binary, "--data", data, "--grpc-listen", "127.0.0.1:0", "--admin-listen", "", "--agents-listen", "127.0.0.1:0", "--gatherer-enabled=false")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready: ") {
		t.Fatal(line, err)
	}
	client, err := sdk.Open(filepath.Join(data, "admin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	return client
}

func (c *carriage) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *carriage) worker(name string) *worker {
	return newWorker(slog.New(slog.DiscardHandler), new(Config), &places{sources: []string{c.dir}, targets: []string{c.dir}}, newMetrics(prometheus.NewRegistry()), c.client, name)
}

// to has it delivered to these replicas from now on.
func (c *carriage) to(names ...string) {
	c.sender.mu.Lock()
	defer c.sender.mu.Unlock()
	c.task.DeliverTo = names
	c.sender.carry(c.job, &replicav1.Task{Replication: "r", Duty: &replicav1.Task_Send{Send: c.task}})
}

// wantDelivered checks to whom nothing more is delivered.
func (c *carriage) wantDelivered(want ...string) {
	c.Helper()
	c.sender.mu.Lock()
	defer c.sender.mu.Unlock()
	if got := c.job.sending.GetDelivered(); !slices.Equal(got, want) {
		c.Errorf("nothing more is delivered to %v, want %v", got, want)
	}
}

// replica is one that receives.
type replica struct {
	*carriage
	name  string
	leave context.CancelFunc
	job   *job
	on    *worker
	ended chan error // what became of it
}

// receive has a replica receive into a directory of its own.
func (c *carriage) receive(name string) *replica {
	c.Helper()
	ctx, leave := context.WithCancel(c.ctx)
	r := &replica{carriage: c, name: name, leave: leave, on: c.worker(name), ended: make(chan error, 1)}
	r.job = &job{ctx: ctx, receiving: &replicav1.ReceiveReport{Replication: "r"}}
	into := filepath.Join(c.dir, name)
	c.must(os.Mkdir(into, 0o700))
	go func() {
		_, _, err := r.on.arrive(ctx, r.job, &replicav1.ReceiveTask{Path: into, DeliveryGroup: "g"})
		r.ended <- err
	}()
	c.Cleanup(leave)
	return r
}

// awaitBytes waits until a replica has so much.
func (r *replica) awaitBytes(want uint64) {
	r.Helper()
	r.await(func() bool {
		r.on.mu.Lock()
		defer r.on.mu.Unlock()
		return r.job.receiving.GetBytes() >= want
	})
}

func (c *carriage) await(is func() bool) {
	c.Helper()
	for !is() {
		if c.ctx.Err() != nil {
			c.Fatal("it does not come to that")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wantWhole waits until a replica has everything.
func (r *replica) wantWhole() {
	r.Helper()
	r.must(<-r.ended)
	got, err := os.ReadFile(filepath.Join(r.dir, r.name, "disk.img"))
	if err != nil || !bytes.Equal(got, r.content) {
		r.Errorf("%s has %d bytes, want %d: %v", r.name, len(got), len(r.content), err)
	}
}

// A replica that session agents serve from a little later on has all of it, although the one that they served first is stopped.
func TestReplicaIsServedThoughAnotherStops(t *testing.T) {
	c := carries(t, 6<<20, 1<<20)
	c.to("a")
	a := c.receive("a")
	a.awaitBytes(1 << 20)
	c.to("a", "b")
	b := c.receive("b")
	b.awaitBytes(1 << 20)
	a.leave()
	<-a.ended
	b.wantWhole()
	c.await(func() bool {
		c.sender.mu.Lock()
		defer c.sender.mu.Unlock()
		return len(c.job.sending.GetDelivered()) > 0
	})
	c.wantDelivered("b")
}

// A replica that joins later than its sender waits for the members of a delivery, as one whose disk stood still or that was started again, has
// all of it none the less.
func TestReplicaThatJoinsLateIsDeliveredTo(t *testing.T) {
	c := carries(t, 1<<20, 0)
	c.to("b")
	<-time.After(joining + time.Second)
	c.wantDelivered()
	c.receive("b").wantWhole()
}

// slow is a source that takes its time, as a disk does.
type slow struct{ io.Reader }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(8 * time.Millisecond)
	return s.Reader.Read(p)
}

// memory is a device in memory that tells how much has come.
type memory struct {
	bytes.Buffer
	came func(upTo int)
}

func (m *memory) Write(p []byte) (int, error) {
	n, err := m.Buffer.Write(p)
	m.came(m.Len())
	return n, err
}

func (m *memory) Sync() error  { return nil }
func (m *memory) Close() error { return nil }

// Onto a device all comes from the first byte. A replica that session agents serve when the beginning is no longer kept, and one that is started
// again then, wait for the next delivery.
func TestReplicaThatComesToALaterPartOfAStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client, content := serve(t), make([]byte, 64<<20)
	_, _ = rand.Read(content) // it never fails
	join := func(name string, role sdk.Role) *sdk.Session {
		session, err := client.Join(ctx, sdk.Join{Group: "g", Name: name, Roles: []sdk.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(session.Close)
		return session
	}
	send := func(from *sdk.Session, what io.Reader) *sdk.Outgoing {
		out, err := from.SendStream(ctx, what, sdk.SendOptions{Name: "disk", AckLevel: sdk.Durable})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var replicas sync.WaitGroup
	defer replicas.Wait()
	begun := make(chan string, 10) // more than there can be
	receive := func(session *sdk.Session, came func(int)) {
		name := session.Member().Name
		replicas.Go(func() {
			var on *memory
			arrived, err := first(ctx, session, sdk.ReceiveOptions{Stream: func(sdk.Incoming) (sdk.StreamWriter, error) {
				begun <- name
				on = &memory{came: came}
				return on, nil
			}})
			if err != nil || arrived.Err != nil || !bytes.Equal(on.Bytes(), content) {
				t.Errorf("%s: %v %v", name, err, arrived.Err)
			}
			leave(session)
		})
	}
	nothing := func(int) {}
	from, kept, again := join("s", sdk.Send), join("kept", sdk.Receive), join("again", sdk.Receive)
	out := send(from, slow{bytes.NewReader(content)})
	untilFar, isFar := context.WithCancel(ctx)
	defer isFar()
	receive(kept, func(upTo int) {
		if upTo >= 40<<20 {
			isFar()
		}
	})
	_, _ = first(untilFar, again, sdk.ReceiveOptions{Stream: func(sdk.Incoming) (sdk.StreamWriter, error) { return &memory{came: nothing}, nil }})
	receive(join("again", sdk.Receive), nothing)
	receive(join("late", sdk.Receive), nothing)
	if _, err := out.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	send(from, bytes.NewReader(content))
	replicas.Wait()
	close(begun)
	times := make(map[string]int)
	for name := range begun {
		times[name]++
	}
	if want := map[string]int{"kept": 1, "again": 2, "late": 2}; !maps.Equal(times, want) {
		t.Errorf("they were in so many deliveries: %v, want %v", times, want)
	}
}
