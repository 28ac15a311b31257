package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// If a sender dies, every member is FAILED(sender_lost) and keeps what it has. When the same object
// is pushed again, it goes on from there.
func TestC61SenderDies(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Cables: map[string]link.Shape{"sender": {}}})
	object := n.Object("model", 2*size)
	p := n.Push(object, "--rate", "8MB", "--deadline", "60s")
	n.AwaitBytes(p, "m1", size)
	n.AwaitBytes(p, "m2", size)
	n.AwaitBytes(p, "m3", size)
	n.KillPush(p)
	ended := n.AwaitEnd(p)
	n.WantOutcomes(ended, p, n.All("sender_lost"))
	for _, receipt := range ended.GetReceipts() {
		if receipt.GetBytes() < size {
			t.Errorf("the receipt of %s says %d bytes", receipt.GetMember(), receipt.GetBytes())
		}
	}
	for _, m := range n.Members {
		n.Await(m.Name()+" has given up", func() bool { return strings.Contains(m.Process.Output(), "sender_lost") })
		if has := n.Partials(m.Name()); has < size {
			t.Errorf("%s keeps %d bytes of %d", m.Name(), has, size)
		}
	}
	before := n.SentBy("sender")
	const rate = 16_000_000
	again := n.AwaitComplete(n.Push(object, "--rate", "16MB"))
	if m := again.GetMeasurements(); m.GetSendBytesPerSecond() > 1.1*rate || m.GetReceptionBytesPerSecond() > 1.1*rate {
		t.Errorf("at a rate of %d at most it is measured as %v", rate, m)
	}
	if sent := n.SentBy("sender") - before; sent > object.Size*3/4 {
		t.Errorf("the second push sent %d bytes: members had half of %d", sent, object.Size)
	}
}

// If a source changes while it is being sent: FAILED(source_changed), and nobody has a mixture of
// both. A source that is replaced by another file is delivered as it was.
func TestSourceChanges(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb"})
	for name, change := range map[string]func(file *os.File) error{
		"overwritten": func(file *os.File) error {
			_, err := file.WriteAt([]byte("other"), size-100)
			return err
		},
		"truncated": func(file *os.File) error { return file.Truncate(size / 2) },
	} {
		t.Run(name, func(t *testing.T) {
			p := n.Push(n.Object(name, size), "--rate", "4MB")
			n.AwaitBytes(p, "m2", 2<<20)
			file, err := os.OpenFile(p.Object.Path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := change(file); err != nil {
				t.Fatal(err)
			}
			n.WantOutcomes(n.AwaitEnd(p), p, n.All("source_changed"))
			if n.AwaitExit(p) == nil {
				t.Error("the push says that all is well")
			}
		})
	}
	t.Run("replaced", func(t *testing.T) {
		p := n.Push(n.Object("replaced", size), "--rate", "16MB")
		n.AwaitBytes(p, "m2", 1<<20)
		other := n.Object("other", size)
		if err := os.Rename(other.Path, p.Object.Path); err != nil {
			t.Fatal(err)
		}
		n.AwaitComplete(p)
	})
}

// A source that cannot be read is refused before anything begins.
func TestSourceCannotBeRead(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 1, Members: "a"})
	there := n.Object("model", 1)
	missing := there
	missing.Path = filepath.Join(filepath.Dir(there.Path), "missing")
	special := there
	special.Path = "/dev/null"
	for _, tt := range []struct {
		object faults.Object
		says   string
	}{{missing, "no such file or directory"}, {special, "it is a device"}} {
		wantRefused(t, n, tt.object, 2, tt.object.Path+": "+tt.says)
	}
	if n.HasDeliveries() {
		t.Error("a delivery has begun")
	}
}

// If nobody receives, the sender is told at once.
func TestNoReceivers(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 1})
	wantRefused(t, n, n.Object("model", 1), 4, "no receivers: no other member with the role receive is joined")
}

// wantRefused checks that a push ends with a status, and says why.
func wantRefused(t *testing.T, n *faults.Net, object faults.Object, status int, why string) {
	t.Helper()
	p := n.TryPush(object)
	var ended *exec.ExitError
	if err := n.AwaitExit(p); !errors.As(err, &ended) || ended.ExitCode() != status {
		t.Errorf("a push of %s: %v, want exit status %d", object.Path, err, status)
	}
	if said := p.Process.Output(); !strings.Contains(said, why) {
		t.Errorf("a push of %s says %q, want %q", object.Path, said, why)
	}
}

// away returns how long managers are gone in the middle of a delivery. "make static-stability" makes it ten minutes.
func away(t *testing.T) time.Duration {
	text := os.Getenv("GROUPCAST_FAULTS_AWAY")
	if text == "" {
		return 12 * time.Second
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return span
}

// All managers are gone while bytes flow. The bytes go on flowing; members that have everything put
// it in its place, as the sender had sealed it; and when a manager is back the delivery ends
// COMPLETE.
func TestP11ManagersAreGone(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ gone, back func(*faults.Net) }{
		"killed": {func(n *faults.Net) { n.Kill("manager") }, func(n *faults.Net) { n.Restart("manager") }},
		"frozen": {func(n *faults.Net) { n.Freeze("manager") }, func(n *faults.Net) { n.Thaw("manager") }},
	} {
		t.Run(name, func(t *testing.T) {
			span := away(t)
			n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb"})
			p := n.Push(n.Object("model", size), "--rate", fmt.Sprint(size/int(span.Seconds())))
			n.AwaitBytes(p, "m2", 1)
			n.Await("the sender has sealed it", func() bool { return len(n.Delivery(p.ID).GetRoot()) > 0 })
			fault.gone(n)
			for _, m := range n.Members {
				n.AwaitWithin(span+30*time.Second, m.Name()+" has all", func() bool { return n.Received(m, p.Object) == p.Object.Size })
			}
			for _, m := range n.Members {
				n.Await(m.Name()+" has put it in its place", func() bool { return n.Has(m.Name(), p.Object) })
			}
			said := func(words string) func() bool {
				return func() bool { return strings.Count(p.Process.Output(), words) == 1 }
			}
			n.Await("the sender says that no manager answers", said("nothing is heard of the managers since "))
			fault.back(n)
			n.AwaitComplete(p)
			n.Await("the sender says that one answers again", said("a manager answers again"))
		})
	}
}
