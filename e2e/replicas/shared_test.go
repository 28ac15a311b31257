package replicas_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// Two replications on one LAN, whose switch passes both on to everybody, share it, though one was there before: over
// 40 s neither has less than 40 % of what is sent, and both copies are whole.
func TestTwoReplicationsShareALAN(t *testing.T) {
	const size = 100 << 20 // so that neither is done within the 40 s
	l := labtest.New(t, 1)
	lan := l.LAN("lan")
	cable := link.Shape{Rate: 25 * link.Mbit, Queue: link.Packets(200)}
	senders, receivers := l.Hosts("sender", 2), l.Hosts("receiver", 2)
	uplinks := make([]lab.Way, len(senders))
	for i := range senders {
		uplinks[i] = l.Link(senders[i], lan, cable).From(senders[i])
		l.Link(receivers[i], lan, cable)
	}
	labtest.Start(t, l)

	program := testprocess.Binary(t, commands+"replicator/cmd/groupcast-replicator")
	dir := t.TempDir()
	var processes []*lab.Process
	start := func(host *lab.Host, arguments ...string) {
		p := host.Command(program, append(arguments, "--lan", "eth0")...)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, p)
	}
	sent := func(i int) link.Bytes { return uplinks[i].Read().Count.Delivered.Bytes }
	sources := make([]string, len(senders))
	for i, sender := range senders {
		sources[i] = filepath.Join(dir, "object"+sender.Name())
		content := make([]byte, size)
		_, _ = rand.Read(content)
		if err := os.WriteFile(sources[i], content, 0o600); err != nil {
			t.Fatal(err)
		}
		key := phrase + sender.Name()
		start(receivers[i], "receive", "--into", filepath.Join(dir, receivers[i].Name()), "--key", key, "--name", receivers[i].Name())
		start(sender, "send", sources[i], "--receivers", "1", "--key", key)
		for deadline := time.Now().Add(time.Minute); sent(i) < size/20; {
			if time.Now().After(deadline) {
				t.Fatalf("%s sent %d bytes:\n%s", sender.Name(), sent(i), processes[2*i+1].Output())
			}
			time.Sleep(10 * time.Millisecond) // another process is at work
		}
	}

	one, two := sent(0), sent(1)
	time.Sleep(40 * time.Second)
	one, two = sent(0)-one, sent(1)-two
	t.Logf("%d and %d bytes while both ran", one, two)
	if least := min(one, two); least*100 < (one+two)*40 {
		t.Errorf("one sent %d of %d bytes", least, one+two)
	}
	for _, p := range processes {
		if err := p.Wait(); err != nil {
			t.Errorf("%v:\n%s", err, p.Output())
		}
	}
	for i, source := range sources {
		labtest.WantCopy(t, source, filepath.Join(dir, receivers[i].Name(), filepath.Base(source)))
	}
}
