package replicas_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// The paper profile, which has to be chosen by name, replicates a file by the real program: to two
// receivers, one of them over a link that loses packets. Packets of the sender's interface, and a capture of them, show the windows.
func TestPaperProfileByName(t *testing.T) {
	l := labtest.New(t, 1)
	lan, sender, receivers := l.LAN("lan"), l.Host("sender"), l.Hosts("receiver", 2)
	l.Link(sender, lan, link.Shape{})
	l.Link(receivers[0], lan, link.Shape{})
	l.Link(receivers[1], lan, link.Shape{}).Back(link.Shape{Loss: 0.01})
	labtest.Start(t, l)
	dir, binary := t.TempDir(), testprocess.Binary(t, "github.com/groupcast/groupcast/services/replicator/cmd/groupcast-replicator")
	content := make([]byte, 200_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	const group = "239.7.7.7:7431"
	var running []*lab.Process
	for _, host := range receivers {
		p := host.Command(binary, "receive", "--profile", "paper", "--lan", "eth0", "--group", group, "--into", filepath.Join(dir, host.Name()))
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, p)
		awaitGroup(t, host)
	}
	kept := filepath.Join(dir, "transfer.pcap")
	decode, live := watch(t, sender, "decode", "-w", kept), watch(t, sender, "figures", "-o", "json", "--piece", "1ms", "--into", dir)
	send := sender.Command(binary, "send", "--profile", "paper", "--lan", "eth0", "--group", group, source)
	if err := send.Run(); err != nil {
		t.Fatalf("%v: %s", err, send.Output())
	}
	for i, p := range running {
		if err := p.Wait(); err != nil {
			t.Fatalf("%v: %s", err, p.Output())
		}
		got, err := os.ReadFile(filepath.Join(dir, receivers[i].Name()))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s has %d of %d bytes, %v", receivers[i].Name(), len(got), len(content), err)
		}
	}
	unwatch(t, sender, decode, live)
	for name, one := range map[string]figure{"the interface": figureOf(t, live.Output()), "the capture": draw(t, sender, kept)} {
		if server := sender.Addr().String() + ":"; !strings.HasPrefix(one.Server, server) || one.Group != group || one.Windows < 2 || one.Largest < 2 || one.DATA < len(content)/512 {
			t.Errorf("of %d bytes from %s there is drawn from %s: %+v", len(content), server, name, one)
		}
		if lines := strings.Count(decode.Output(), " > "+group+" SOMA DATA sn "); lines < one.DATA {
			t.Errorf("%d packets with data were printed, and %d drawn from %s", lines, one.DATA, name)
		}
	}
	for _, host := range receivers {
		if lines := decode.Output(); !regexp.MustCompile(` ` + regexp.QuoteMeta(host.Addr().String()) + `:\d+ > \S+ SOMA ACK sn `).MatchString(lines) {
			t.Errorf("no ACK of %s was printed: %s", host.Name(), lines)
		}
	}
	if !strings.Contains(send.Output(), "no receipts") {
		t.Errorf("the sender said %q", send.Output())
	}
	for want, arguments := range map[string][]string{
		"--key: ":           {"--profile", "paper", "--key", "k7qd-92mf-xw3p-bt6h"},
		"--group is":        {"--profile", "paper"},
		"fast or paper":     {"--profile", "published", "--group", group},
		"--group nonsense:": {"--profile", "paper", "--group", "nonsense"},
	} {
		p := sender.Command(binary, append([]string{"send", "--lan", "eth0", source}, arguments...)...)
		if err := p.Run(); err == nil || !strings.Contains(p.Output(), want) {
			t.Errorf("%v: %v, %q; want %q", arguments, err, p.Output(), want)
		}
	}
}

// A directory to receive into, which the other profile accepts, is a mistake, and the message says what to do: otherwise the
// sender would only notice that nobody listens.
func TestPaperProfileIntoDirectory(t *testing.T) {
	a := startAlone(t)
	said := a.run(a.sender, 2, "receive", "--profile", "paper", "--lan", "eth0", "--group", "239.7.7.7:7431", "--into", a.dir)
	a.want(said, `--into `+regexp.QuoteMeta(a.dir)+`: it is a directory.* as `+regexp.QuoteMeta(a.dir)+`/received$`)
}

// The profile's on-line streams go from standard input to standard output, as they come.
func TestPaperStreamByName(t *testing.T) {
	a := startAlone(t)
	common := []string{"--profile", "paper", "--lan", "eth0", "--group", "239.7.7.7:7431"}
	got := filepath.Join(a.dir, "got")
	receiver := a.receivers[0].Command("sh", append([]string{"-c", `into=$1 program=$2; shift 2; exec "$program" receive --into - "$@" >"$into"`, "sh", got, a.binary}, common...)...)
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	awaitGroup(t, a.receivers[0])
	sender := a.sender.Command("sh", append([]string{"-c", `{ echo one; sleep 0.3; echo two; } | "$0" send - "$@"`, a.binary}, common...)...)
	if err := sender.Run(); err != nil {
		t.Fatalf("%v: %s", err, sender.Output())
	}
	if err := receiver.Wait(); err != nil {
		t.Errorf("%v: %s", err, receiver.Output())
	}
	if came, err := os.ReadFile(got); string(came) != "one\ntwo\n" || err != nil {
		t.Errorf("%q came, %v", came, err)
	}
}

// A stream that breaks off: what came and what was lost of it is said all the same.
func TestPaperStreamBreaksOff(t *testing.T) {
	a := startAlone(t)
	common := []string{"--profile", "paper", "--lan", "eth0", "--group", "239.7.7.7:7431"}
	receiver := a.receivers[0].Command(a.binary, append([]string{"receive", "--into", "-", "--patience", "1s"}, common...)...)
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	awaitGroup(t, a.receivers[0])
	said, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	defer says.Close()
	sender := a.sender.Command(a.binary, append([]string{"send", "-"}, common...)...)
	sender.Stdin = said
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sender.Kill() }()
	if _, err := says.WriteString("one\n"); err != nil {
		t.Fatal(err)
	}
	a.wantStatus(receiver, receiver.Wait(), 6)
	a.want(receiver.Output(), `4 B in .* from 10\.\S*, 0 packets lost.*`, `the server is silent for too long`)
}

// awaitGroup waits until the host's kernel has joined 239.7.7.7.
func awaitGroup(t *testing.T, host *lab.Host) {
	t.Helper()
	for joined := false; !joined; {
		err := host.Do(func() error {
			list, err := os.ReadFile("/proc/thread-self/net/igmp")
			joined = strings.Contains(string(list), "070707EF")
			return err
		})
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}
