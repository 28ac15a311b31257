package replicas_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// C53: a receiver whose disk takes a tenth of what the LAN brings has everything when its disk has, and keeps no more in memory meanwhile
// than any other. Served last, it holds up nobody.
func TestSlowDiskTakesNoMoreMemory(t *testing.T) {
	const size, disk = 150 << 20, 80 * link.Mbit // more than mostMemory, and 16 s
	l := labtest.New(t, 1)
	lan, sender := l.LAN("lan"), l.Host("sender")
	receivers := l.Hosts("receiver", 2)
	for _, host := range append([]*lab.Host{sender}, receivers...) {
		l.Link(host, lan, link.Shape{})
	}
	labtest.Start(t, l)
	dir := t.TempDir()
	p := &partitions{t: t, sender: sender, receivers: receivers, program: testprocess.Binary(t, commands+"replicator/cmd/groupcast-replicator"), source: filepath.Join(dir, "object")}
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{53}).Read(content)
	if err := os.WriteFile(p.source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	slow, err := receivers[1].SlowableDisk(size + 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.Slow(disk, 0); err != nil {
		t.Fatal(err)
	}
	var running []*lab.Process
	for i, into := range []string{dir, lab.DiskPath} {
		running = append(running, p.start(receivers[i], "receive", "--into", filepath.Join(into, "copy"), "--name", receivers[i].Name()))
	}
	began := time.Now()
	sending := p.start(sender, "send", p.source, "--receivers", "2", "--wait", "30s", "--slow", "detach")
	var took []time.Duration
	for i, one := range append(running, sending) {
		if err := one.Wait(); err != nil {
			t.Fatalf("%d: %v\n%s", i, err, one.Output())
		}
		took = append(took, time.Since(began))
		if peak := one.Usage().PeakMemory; peak < link.MiB || peak > mostMemory {
			t.Errorf("%d needed %d MiB", i, peak/link.MiB)
		}
	}
	t.Logf("the fast one after %v, the slow one after %v, of %d and %d MiB", took[0], took[1], running[0].Usage().PeakMemory/link.MiB, running[1].Usage().PeakMemory/link.MiB)
	if took[1] < 10*time.Second || took[0] > took[1]/2 {
		t.Errorf("the fast one has everything after %v, the slow one after %v", took[0], took[1])
	}
	if said, err := exec.Command("cmp", p.source, slow.Outside("copy/object")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}
