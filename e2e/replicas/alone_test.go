package replicas_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// alone is a sender and two receivers on a LAN without a manager. The second receiver has a disk that is too small.
type alone struct {
	*testing.T
	sender    *lab.Host
	receivers []*lab.Host
	binary    string
	dir       string
	source    string
}

func startAlone(t *testing.T) *alone {
	t.Helper()
	l := labtest.New(t, 1)
	lan := l.LAN("lan")
	a := &alone{
		T: t, sender: l.Host("sender"), receivers: l.Hosts("receiver", 2), dir: t.TempDir(),
		binary: testprocess.Binary(t, commands+"replicator/cmd/groupcast-replicator"),
	}
	for _, host := range append([]*lab.Host{a.sender}, a.receivers...) {
		l.Link(host, lan, link.Shape{})
	}
	labtest.Start(t, l)
	if _, err := a.receivers[1].Disk(64 << 10); err != nil {
		t.Fatal(err)
	}
	a.source = filepath.Join(a.dir, "object")
	if err := os.WriteFile(a.source, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// receive starts a receiver, and returns when it listens, that is, when its kernel has joined a group.
func (a *alone) receive(i int, more ...string) *lab.Process {
	a.Helper()
	p := a.begin(i, more...)
	listens := false
	a.await("a receiver listens", func() bool {
		err := a.receivers[i].Do(func() error {
			list, err := os.ReadFile("/proc/thread-self/net/igmp")
			listens = joined.Match(list)
			return err
		})
		if err != nil {
			a.Fatal(err)
		}
		return listens
	})
	return p
}

// joined matches a group of 239.0.0.0/8 in a kernel's list.
var joined = regexp.MustCompile("(?m)^[\t ]+[0-9A-F]{6}EF ")

func (a *alone) await(what string, holds func() bool) {
	a.Helper()
	await(a.T, what, holds)
}

// begin starts a receiver: the first has room, the second does not.
func (a *alone) begin(i int, more ...string) *lab.Process {
	a.Helper()
	into := []string{filepath.Join(a.dir, "into"), lab.DiskPath}[i]
	if err := os.MkdirAll(filepath.Join(a.dir, "into"), 0o700); err != nil {
		a.Fatal(err)
	}
	p := a.receivers[i].Command(a.binary, append([]string{"receive", "--lan", "eth0", "--key", phrase, "--into", into, "--name", a.receivers[i].Name()}, more...)...)
	if err := p.Start(); err != nil {
		a.Fatal(err)
	}
	return p
}

// slowly begins a transfer to the first receiver that takes some seconds, and returns when it is in progress.
func (a *alone) slowly() (receiver, sender *lab.Process, content []byte) {
	a.Helper()
	return a.slowlyWith("1m", "1m")
}

// slowlyWith is slowly with how patient the receiver and the sender are.
func (a *alone) slowlyWith(receives, sends string) (receiver, sender *lab.Process, content []byte) {
	a.Helper()
	content = make([]byte, 40<<20)
	_, _ = rand.Read(content)
	if err := os.WriteFile(a.source, content, 0o600); err != nil {
		a.Fatal(err)
	}
	receiver = a.receive(0, "--patience", receives)
	sender = a.sender.Command(a.binary, "send", a.source, "--lan", "eth0", "--key", phrase, "--receivers", "1", "--rate", "10MB", "--patience", sends)
	if err := sender.Start(); err != nil {
		a.Fatal(err)
	}
	a.await("something has come", func() bool {
		pieces, err := filepath.Glob(filepath.Join(a.dir, "into/.groupcast-partial/*/*"))
		return err == nil && slices.ContainsFunc(pieces, func(piece string) bool {
			info, err := os.Stat(piece)
			return err == nil && info.Size() > 1<<20
		})
	})
	return receiver, sender, content
}

// run runs the program on a host until it ends, checks the status, and returns what it said.
func (a *alone) run(host *lab.Host, status int, arguments ...string) string {
	a.Helper()
	p := host.Command(a.binary, arguments...)
	a.wantStatus(p, p.Run(), status)
	return p.Output()
}

// send sends with a phrase.
func (a *alone) send(status int, arguments ...string) string {
	a.Helper()
	return a.run(a.sender, status, append([]string{"send", a.source, "--lan", "eth0", "--key", phrase}, arguments...)...)
}

func (a *alone) wantStatus(p *lab.Process, ended error, status int) {
	a.Helper()
	got := 0
	if exit := new(exec.ExitError); errors.As(ended, &exit) {
		got = exit.ExitCode()
	} else if ended != nil {
		a.Fatal(ended)
	}
	if got != status {
		a.Errorf("exit status %d, want %d: %s", got, status, p.Output())
	}
}

func (a *alone) want(said string, patterns ...string) {
	a.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(said) {
			a.Errorf("%q is not in what was said: %s", pattern, said)
		}
	}
}

// A receiver that has no room tells the sender, which has a receipt for that, and does not wait for the receiver;
// nor does it look for a problem in the LAN.
func TestRefusalsAreToldToTheSender(t *testing.T) {
	a := startAlone(t)
	fine, poor := a.receive(0), a.receive(1)
	said := a.send(3, "--receivers", "2")
	a.want(said, `^receiver1 .* COMPLETE .*`, `^receiver2 +[0-9.]+ +FAILED +0 B +0.00% +no_room: .*are needed$`, `not every receiver has it$`)
	a.wantStatus(fine, fine.Wait(), 0)
	a.want(fine.Output(), `^receiving object, 1.0 MiB, from 10\.`)
	a.wantStatus(poor, poor.Wait(), 1)

	poor = a.receive(1)
	said = a.send(1, "--wait", "3s")
	a.want(said, `^groupcast-replicator: the only receiver refused: receiver2: .*no room`, `^receiver2 .*FAILED`)
	if strings.Contains(said, "switch") {
		t.Errorf("the sender said %q", said)
	}
	a.wantStatus(poor, poor.Wait(), 1)
}

// Programs read about it in the same form as about the managers' replications.
func TestReceiptsAsJSON(t *testing.T) {
	a := startAlone(t)
	fine, poor := a.receive(0, "-o", "json"), a.receive(1)
	read := func(said string) *replicav1.Replication {
		t.Helper()
		r := new(replicav1.Replication)
		begin, end := strings.Index(said, "{"), strings.LastIndex(said, "}")
		if begin < 0 || end < begin {
			t.Fatalf("no JSON in %q", said)
		}
		if err := protojson.Unmarshal([]byte(said[begin:end+1]), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read(a.send(3, "--receivers", "3", "--wait", "2s", "-o", "json"))
	if r.GetState() != replicav1.ReplicationState_REPLICATION_STATE_PARTIAL || r.GetReplicaCount() != 3 || r.GetCompleteCount() != 1 || r.GetFailedCount() != 1 || r.GetName() != "object" || len(r.GetRoot()) != 32 {
		t.Errorf("it ended as %v", r)
	}
	one, two := r.GetReplicas()[0], r.GetReplicas()[1]
	if one.GetState() != replicav1.ReplicaState_REPLICA_STATE_COMPLETE || one.GetBytes() != r.GetLength() || one.GetNode() == "" || two.GetReason() != "no_room" || two.GetDetail() == "" {
		t.Errorf("the replicas are %v and %v", one, two)
	}
	a.wantStatus(fine, fine.Wait(), 0)
	a.wantStatus(poor, poor.Wait(), 1)
	if got := read(fine.Output()); !bytes.Equal(got.GetRoot(), r.GetRoot()) || got.GetReplicas()[0].GetName() != "receiver1" {
		t.Errorf("the receiver has %v", got)
	}

	// There are receipts even if nothing came of it.
	r = read(a.send(6, "--receivers", "2", "--wait", "1s", "-o", "json"))
	if r.GetState() != replicav1.ReplicationState_REPLICATION_STATE_FAILED || r.GetName() != "object" || r.GetReplicaCount() != 2 || r.GetDetail() == "" {
		t.Errorf("without receivers it ended as %v", r)
	}
	unheard := a.begin(0, "--await", "1s", "-o", "json")
	a.wantStatus(unheard, unheard.Wait(), 6)
	if one := read(unheard.Output()).GetReplicas()[0]; one.GetState() != replicav1.ReplicaState_REPLICA_STATE_FAILED || one.GetReason() != "no_multicast" || one.GetDetail() == "" {
		t.Errorf("a receiver without a sender has %v", one)
	}
	poor = a.receive(1, "-o", "json")
	r = read(a.send(1, "--wait", "3s", "-o", "json"))
	if len(r.GetReplicas()) != 1 || r.GetReplicas()[0].GetReason() != "no_room" || r.GetReason() != "" {
		t.Errorf("with a receiver that refuses it ended as %v", r)
	}
	a.wantStatus(poor, poor.Wait(), 1)
	if got := read(poor.Output()); got.GetName() != "object" || got.GetReplicas()[0].GetReason() != "no_room" {
		t.Errorf("the receiver that refuses has %v", got)
	}
}

// A sender whose user sees no line says which receiver is silent, and which is back.
func TestSilentReceiversAreTold(t *testing.T) {
	a := startAlone(t)
	receiver, sender, _ := a.slowly()
	wait := func(what string) {
		t.Helper()
		a.await("the sender says that the receiver "+what, func() bool { return strings.Contains(sender.Output(), what) })
	}
	if err := receiver.Stop(); err != nil {
		t.Fatal(err)
	}
	wait("receiver1 (10.")
	wait(") is silent\n")
	if err := receiver.Continue(); err != nil {
		t.Fatal(err)
	}
	wait(") is back\n")
	a.wantStatus(receiver, receiver.Wait(), 0)
	a.wantStatus(sender, sender.Wait(), 0)
}

// A process that was stopped for longer than it is patient with others, as by Ctrl-Z, has heard nobody meanwhile: it goes on, and so does who
// waited for it.
func TestStoppedProcessGoesOn(t *testing.T) {
	for _, stops := range []string{"sender", "receiver"} {
		t.Run(stops, func(t *testing.T) {
			t.Parallel()
			a := startAlone(t)
			patience := map[string]string{stops: "5s"}
			receiver, sender, content := a.slowlyWith(cmp.Or(patience["receiver"], "1m"), cmp.Or(patience["sender"], "1m"))
			stopped := map[string]*lab.Process{"sender": sender, "receiver": receiver}[stops]
			if err := stopped.Stop(); err != nil {
				t.Fatal(err)
			}
			<-time.After(12 * time.Second) // this is for how long it is stopped
			if err := stopped.Continue(); err != nil {
				t.Fatal(err)
			}
			a.wantStatus(receiver, receiver.Wait(), 0)
			a.wantStatus(sender, sender.Wait(), 0)
			if got, err := os.ReadFile(filepath.Join(a.dir, "into/object")); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes have come, %v", len(got), err)
			}
		})
	}
}

// A sender that goes on without some that it was to wait for says so when it begins and when it ends, and has not
// done all that it was asked for.
func TestMissingReceiversAreTold(t *testing.T) {
	a := startAlone(t)
	fine := a.receive(0)
	said := a.send(3, "--receivers", "3", "--wait", "3s")
	a.want(said, `^begins with 1 of 3 receivers: the others did not join within 3s$`, `^2 of 3 receivers did not join$`,
		`^receiver1 .* COMPLETE `, `^groupcast-replicator: not every receiver has it$`)
	a.wantStatus(fine, fine.Wait(), 0)

	fine, poor := a.receive(0), a.receive(1)
	said = a.send(3, "--receivers", "3", "--wait", "2s")
	a.want(said, `^begins with 1 of 3 receivers: 1 refused, the other did not join within 2s$`, `^1 of 3 receivers did not join$`)
	a.wantStatus(fine, fine.Wait(), 0)
	a.wantStatus(poor, poor.Wait(), 1)

	fine = a.receive(0)
	if said = a.send(0, "--receivers", "1", "--wait", "20s"); strings.Contains(said, "begins with") || strings.Contains(said, "did not join") {
		t.Errorf("with all who were waited for, the sender said %q", said)
	}
	a.wantStatus(fine, fine.Wait(), 0)
}

// A sender without a phrase makes one up and says how to receive with it. What it records of how it goes can be drawn.
func TestPhraseIsMadeUp(t *testing.T) {
	a := startAlone(t)
	content, recorded := make([]byte, 3<<20), filepath.Join(a.dir, "record")
	_, _ = rand.Read(content)
	if err := os.WriteFile(a.source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	sender := a.sender.Command(a.binary, "send", a.source, "--lan", "eth0", "--receivers", "1", "--wait", "90s", "--record", recorded)
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	var made []string
	a.await("the sender says its phrase", func() bool {
		made = receiveWith.FindStringSubmatch(sender.Output())
		return made != nil
	})
	receiver := a.begin(0, "--await", "60s", "--key", made[1]) // instead of the tests' own
	a.wantStatus(receiver, receiver.Wait(), 0)
	a.wantStatus(sender, sender.Wait(), 0)
	if got, err := os.ReadFile(filepath.Join(a.dir, "into/object")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v: want the %d that were sent", len(got), err, len(content))
	}
	one := draw(t, a.sender, recorded)
	if one.Name != "object" || !strings.HasPrefix(one.Server, a.sender.Addr().String()+":") || one.Largest == 0 || one.DATA < len(content)/1472 {
		t.Errorf("of %d bytes there is drawn %+v", len(content), one)
	}
}

// receiveWith matches what a sender says that has made up a phrase.
var receiveWith = regexp.MustCompile(`(?m)^receive with: groupcast-replicator receive --into PATH --lan INTERFACE --key (\S+)$`)

// A sender that is killed and started again is followed by a receiver of it that has more patience than that takes: it goes on where it was.
func TestSenderThatIsStartedAgainIsFollowed(t *testing.T) {
	a := startAlone(t)
	receiver, first, content := a.slowly()
	time.Sleep(2 * time.Second) // by then it is noted that some has come
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	a.send(0, "--receivers", "1", "--wait", "30s")
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	a.wantStatus(receiver, receiver.Wait(), 0)
	a.want(receiver.Output(), `^.* of it were there before$`)
	if got, err := os.ReadFile(filepath.Join(a.dir, "into/object")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v: want the %d that were sent", len(got), err, len(content))
	}
}

// C61: a second sender with the same phrase ends at once and says why, and the first is not disturbed.
func TestSecondSenderEnds(t *testing.T) {
	a := startAlone(t)
	receiver, first, content := a.slowly()
	second := a.receivers[1].Command(a.binary, "send", a.source, "--lan", "eth0", "--key", phrase, "--receivers", "1", "--wait", "10s", "-o", "json")
	a.wantStatus(second, second.Run(), 1)
	a.want(second.Output(), `^groupcast-replicator: another sender has this key and goes first: `+regexp.QuoteMeta(a.sender.Addr().String())+` sends object \(40 MiB\); wait until it has ended`,
		`"reason": +"refused"`)
	if _, err := os.Stat(filepath.Join(a.dir, "into/object")); err == nil {
		t.Error("the second ended when the first had")
	}
	a.wantStatus(first, first.Wait(), 0)
	a.wantStatus(receiver, receiver.Wait(), 0)
	if got, err := os.ReadFile(filepath.Join(a.dir, "into/object")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v: want the %d that were sent", len(got), err, len(content))
	}
}

// A flag that is missing is a mistake of the caller.
func TestMissingFlagsAreRefused(t *testing.T) {
	a := startAlone(t)
	a.run(a.sender, 2, "send", a.source)
	a.run(a.sender, 2, "receive", "--lan", "eth0", "--key", phrase)
}

// So is a call that makes no sense, and that is said once.
func TestWrongCallsAreRefused(t *testing.T) {
	a := startAlone(t)
	send := func(more ...string) []string { return append([]string{"send", a.source, "--lan", "eth0"}, more...) }
	for _, arguments := range [][]string{
		{"send", "--lan", "eth0"},
		{"bogus"},
		send("--receivers", "-1"), send("--patience", "-1s"), send("--datagram", "100"), send("--datagram", "90000"),
		send("--profile", "paper"),
		{"send", a.dir, "--lan", "eth0", "--profile", "paper", "--group", "239.7.7.7:7431"},
	} {
		said := a.run(a.sender, 2, arguments...)
		if lines := strings.Count(said, "\n"); lines != 1 || !strings.HasPrefix(said, "groupcast-replicator: ") {
			t.Errorf("%q: it said %q, want one line", arguments, said)
		}
	}
}

// A receiver that a sender was still sending to when it was interrupted has failed.
func TestInterruptedSenderSaysWhoFailed(t *testing.T) {
	a := startAlone(t)
	receiver, sender, _ := a.slowly()
	if err := sender.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("%v: %s", err, sender.Output())
	}
	a.wantStatus(sender, sender.Wait(), 130)
	a.want(sender.Output(), `^receiver1 .* FAILED .* canceled$`)
	_ = receiver.Signal(syscall.SIGINT) // it may have heard that the sender goes, and have ended
	_ = receiver.Wait()
}

// A phrase that is given but empty is a mistake: none is made up then.
func TestEmptyPhraseIsRefused(t *testing.T) {
	a := startAlone(t)
	for _, arguments := range [][]string{{"send", a.source}, {"receive", "--into", a.dir}, {"send", a.source, "--profile", "paper", "--group", "239.7.7.7:7431"}} {
		for _, empty := range [][]string{{"--key", ""}, {"--key="}} {
			p := a.sender.Command(a.binary, slices.Concat(arguments, []string{"--lan", "eth0"}, empty)...)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			stop := time.AfterFunc(10*time.Second, func() { _ = p.Kill() }) // otherwise it would wait for ever
			a.wantStatus(p, p.Wait(), 2)
			stop.Stop()
			a.want(p.Output(), `^groupcast-replicator: --key is empty: `)
		}
	}
}
