package standalone_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// serve starts a server of a test's own, and returns an operator's client.
func serve(t *testing.T) *sdk.Client { return serveWith(t, sdk.Policy{}) }

// serveWith is serve with a group of a policy.
func serveWith(t *testing.T, policy sdk.Policy) *sdk.Client {
	t.Helper()
	client, err := sdk.Open(start(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.CreateGroup(t.Context(), "g", policy); err != nil {
		t.Fatal(err)
	}
	return client
}

// start starts a server, and returns its operator's configuration.
func start(t *testing.T) (access string) {
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
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready: ") {
		t.Fatalf("it said %q (%v), want that it is ready", line, err)
	}
	return filepath.Join(data, "admin.yaml")
}

// notes are what a member got, datagram by datagram.
type notes struct {
	got []sdk.Datagram
	err error // what WriteDatagram returns
}

func (n *notes) WriteDatagram(d sdk.Datagram) error {
	d.Payload = append([]byte(nil), d.Payload...)
	n.got = append(n.got, d)
	return n.err
}

func (n *notes) Write([]byte) (int, error) { return 0, errors.New("a datagram came as bytes") }
func (n *notes) Close() error              { return nil }

// counting gives so many datagrams.
type counting struct{ next, end int }

func (c *counting) Read(to []byte) (int, error) {
	if c.next == c.end {
		return 0, io.EOF
	}
	c.next++
	return copy(to, fmt.Sprintf("datagram %d", c.next-1)), nil
}

// pass sends datagrams to one member, and returns what it says when the stream has ended.
func pass(t *testing.T, client *sdk.Client, to sdk.StreamWriter, how sdk.DatagramOptions) sdk.Arrived {
	t.Helper()
	return passFrom(t, client, &counting{end: count}, to, how)
}

// passFrom is pass with the datagrams of a source.
func passFrom(t *testing.T, client *sdk.Client, source io.Reader, to sdk.StreamWriter, how sdk.DatagramOptions) sdk.Arrived {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	join := func(role sdk.Role) *sdk.Session {
		session, err := client.Join(ctx, sdk.Join{Group: "g", Name: string(role), Node: "a", Roles: []sdk.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	receiver, sender := join(sdk.Receive), join(sdk.Send)
	defer receiver.Leave(ctx)
	defer sender.Leave(ctx)
	if _, err := sender.SendDatagrams(ctx, source, sdk.SendOptions{Datagrams: how}); err != nil {
		t.Fatal(err)
	}
	for arrived, err := range receiver.Receive(ctx, sdk.ReceiveOptions{Stream: func(sdk.Incoming) (sdk.StreamWriter, error) { return to, nil }}) {
		if err != nil {
			t.Fatal(err)
		}
		return arrived
	}
	t.Fatal("nothing has arrived")
	return sdk.Arrived{}
}

const count = 50

// A program is told of each datagram where it stands and how old it is.
func TestDatagramsAreDescribed(t *testing.T) {
	to, client := notes{}, serve(t)
	for try := 1; ; try++ { // other load on the machine can lose datagrams
		to = notes{}
		arrived := pass(t, client, &to, sdk.DatagramOptions{ParityData: 10, ParityShards: 2})
		c := arrived.Datagrams
		if arrived.Err == nil && c != nil && c.Received == count && c.Lost == 0 && c.Late == 0 && len(to.got) == count {
			break
		}
		if try == 3 || arrived.Err != nil || c == nil || c.Received+c.Lost+c.Late != count {
			t.Fatalf("try %d: %d came: %v, %+v", try, len(to.got), arrived.Err, c)
		}
	}
	for _, d := range to.got {
		if want := fmt.Sprintf("datagram %d", d.Sequence); string(d.Payload) != want {
			t.Errorf("%s is %q", want, d.Payload)
		}
		if d.Age > patience || d.Age < -time.Second || time.Since(d.Sent) > patience {
			t.Errorf("datagram %d is %v old", d.Sequence, d.Age)
		}
	}
}

// slow is a program that stands still over the first datagram that it is given.
type slow struct {
	notes
	pause time.Duration
}

func (s *slow) WriteDatagram(d sdk.Datagram) error {
	if len(s.got) == 0 {
		time.Sleep(s.pause)
	}
	return s.notes.WriteDatagram(d)
}

// waiting ends only when the member has said that all has come: datagrams that come behind the end of a stream are soon lost.
type waiting struct {
	counting
	t      *testing.T
	client *sdk.Client
}

func (w *waiting) Read(to []byte) (int, error) {
	n, err := w.counting.Read(to)
	for end := time.Now().Add(patience); errors.Is(err, io.EOF) && w.come() < count && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	return n, err
}

// come returns how many have come, late ones included.
func (w *waiting) come() (n uint64) {
	list, err := w.client.Deliveries(w.t.Context(), "g")
	if err != nil || len(list) != 1 {
		return 0
	}
	delivery, err := w.client.Delivery(w.t.Context(), list[0].ID)
	if err != nil {
		return 0
	}
	for _, receipt := range delivery.Receipts {
		if c := receipt.Datagrams; c != nil {
			n += c.Received + c.Late
		}
	}
	return n
}

// A datagram that is older than the bound is counted, and not handed on. Behind a program that stands still, datagrams become older than any
// error of clocks.
func TestStaleDatagramsAreNotHandedOn(t *testing.T) {
	const bound = 500 * time.Millisecond
	client, to := serve(t), slow{pause: 2 * bound}
	arrived := passFrom(t, client, &waiting{counting{end: count}, t, client}, &to, sdk.DatagramOptions{Fresh: bound})
	c := arrived.Datagrams
	if arrived.Err != nil || c == nil || c.Late == 0 || c.Received != uint64(len(to.got)) || c.Received+c.Late+c.Lost != count {
		t.Fatalf("%d came: %v, %+v", len(to.got), arrived.Err, c)
	}
	for _, d := range to.got {
		if d.Age > bound {
			t.Errorf("datagram %d was handed on when it was %v old", d.Sequence, d.Age)
		}
	}
}

// A member that cannot write says so.
func TestMemberThatCannotWrite(t *testing.T) {
	to := notes{err: errors.New("no paper")}
	arrived := pass(t, serve(t), &to, sdk.DatagramOptions{})
	var failed *sdk.DeliveryError
	if !errors.As(arrived.Err, &failed) || failed.Reason != "failed" || !strings.Contains(failed.Detail, "no paper") {
		t.Errorf("it ended by %v", arrived.Err)
	}
}

// blocked is a place that takes nothing, until it is closed.
type blocked struct {
	begun, closed chan struct{}
}

func (b *blocked) Write([]byte) (int, error) {
	close(b.begun)
	<-b.closed
	return 0, errors.New("closed")
}

func (b *blocked) Close() error {
	close(b.closed)
	return nil
}

// A member whose program takes nothing stays a member, and can be told to stop receiving.
func TestMemberWhoseWritesBlock(t *testing.T) {
	t.Parallel()
	client, to := serve(t), &blocked{make(chan struct{}), make(chan struct{})}
	receiver, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "blocked", Node: "a", Roles: []sdk.Role{sdk.Receive}})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	sender, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "sender", Node: "a", Roles: []sdk.Role{sdk.Send}})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	ctx, stop := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		for range receiver.Receive(ctx, sdk.ReceiveOptions{Stream: func(sdk.Incoming) (sdk.StreamWriter, error) { return to, nil }}) {
		}
	}()
	if _, err := sender.SendDatagrams(t.Context(), &counting{end: count}, sdk.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-to.begun
	time.Sleep(12 * time.Second) // a session lives for 10 s without a sign
	members, err := client.Members(t.Context(), "g")
	is := func(m sdk.Member) bool { return m.Name == "blocked" }
	if err != nil || !slices.ContainsFunc(members, is) {
		t.Errorf("members are %v, %v", members, err)
	}
	stop()
	select {
	case <-left:
	case <-time.After(patience):
		t.Error("receiving goes on")
	}
}

// Datagrams are sealed whatever the data plane is: a group of plaintext has streams of them, too.
func TestDatagramsInAGroupOfPlaintext(t *testing.T) {
	t.Parallel()
	to := &notes{}
	arrived := pass(t, serveWith(t, sdk.Policy{DataPlane: sdk.Plaintext}), to, sdk.DatagramOptions{})
	if len(to.got) == 0 || arrived.Datagrams.Received == 0 {
		t.Errorf("%d of %d came: %+v", len(to.got), count, arrived.Datagrams)
	}
}

// pausing is a place that takes nothing for some time after its first datagram, and notes when the next ones came.
type pausing struct {
	notes
	pause  time.Duration
	resume time.Time
	after  chan time.Duration // since it went on, for those that were sent later
}

func (p *pausing) WriteDatagram(d sdk.Datagram) error {
	if p.resume.IsZero() {
		time.Sleep(p.pause)
		p.resume = time.Now()
	}
	if d.Sent.After(p.resume) {
		select {
		case p.after <- time.Since(p.resume):
		default:
		}
	}
	return nil
}

// ticking is a source with a datagram every few milliseconds, until it is closed.
type ticking struct{ ended chan struct{} }

func (s ticking) Read(to []byte) (int, error) {
	select {
	case <-s.ended:
		return 0, io.EOF
	case <-time.After(5 * time.Millisecond):
		return copy(to, "datagram"), nil
	}
}

// A program that pauses for longer than the circuit breaker bears gets what is sent as soon as it goes on: the network has lost nothing.
func TestProgramThatPausedGoesOn(t *testing.T) {
	t.Parallel()
	to, source := &pausing{pause: 8 * time.Second, after: make(chan time.Duration, 1)}, ticking{make(chan struct{})}
	go func() {
		defer close(source.ended)
		select {
		case took := <-to.after:
			if took > 2*time.Second {
				t.Errorf("the next came %v after it went on", took)
			}
		case <-time.After(patience):
			t.Error("nothing came after the pause")
		}
	}()
	passFrom(t, serve(t), source, to, sdk.DatagramOptions{})
}
