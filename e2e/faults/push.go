package faults

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lukechampine.com/blake3"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/links"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Object is a file that is pushed.
type Object struct {
	Name string
	Path string
	Size int64
	Hash [32]byte
}

// Object makes a file of random bytes.
func (n *Net) Object(name string, size int64) Object {
	n.Helper()
	dir := filepath.Join(n.dir, "objects", fmt.Sprint(len(n.objects)))
	n.must(os.MkdirAll(dir, 0o700))
	file, err := os.Create(filepath.Join(dir, name))
	n.must(err)
	hash := blake3.New(32, nil)
	seed := [32]byte{byte(len(n.objects)), byte(len(n.objects[name]))}
	_, err = io.CopyN(io.MultiWriter(file, hash), rand.NewChaCha8(seed), size)
	n.must(err)
	n.must(file.Close())
	o := Object{Name: name, Path: file.Name(), Size: size, Hash: [32]byte(hash.Sum(nil))}
	n.objects[name] = append(n.objects[name], o)
	return o
}

// Push is an object that is being pushed.
type Push struct {
	ID      string
	Object  Object
	Process *lab.Process
	over    bool // it was seen to have ended
}

// Push pushes an object from the sender's machine, and waits until the delivery has begun.
func (n *Net) Push(object Object, flags ...string) *Push {
	n.Helper()
	p := n.TryPush(object, flags...)
	n.awaitBegin(p)
	return p
}

func (n *Net) awaitBegin(p *Push) {
	n.Helper()
	n.Await("the delivery of "+p.Object.Name+" begins", func() bool {
		for _, d := range n.deliveries() {
			if !slices.ContainsFunc(n.pushes, func(known *Push) bool { return known.ID == d.GetId() }) {
				p.ID = d.GetId()
				return true
			}
		}
		select {
		case <-p.Process.Ended():
			n.Fatalf("the push ended: %s", p.Process.Output())
		default:
		}
		return false
	})
	n.pushes = append(n.pushes, p)
}

// TryPush starts a push that may fail.
func (n *Net) TryPush(object Object, flags ...string) *Push {
	n.Helper()
	p := n.preparePush(object, object.Path, flags)
	n.must(p.Process.Start())
	return p
}

func (n *Net) preparePush(object Object, source string, flags []string) *Push {
	s := n.Sender
	args := slices.Concat([]string{"push", "--debug", source, "--group", group, "--as", s.name, "--node", s.node}, flags)
	return &Push{Object: object, Process: n.groupcast(s, s.config(), args...)}
}

// Stream is the input of a push.
type Stream struct {
	*Net
	from *os.File
	to   *os.File
}

// PushStream pushes a stream, to which an object will be written.
func (n *Net) PushStream(object Object, flags ...string) (*Push, *Stream) {
	n.Helper()
	p := n.preparePush(object, "-", append([]string{"--stream", "--name", object.Name}, flags...))
	from, err := os.Open(object.Path)
	n.must(err)
	read, write, err := os.Pipe()
	n.must(err)
	p.Process.Stdin = read
	n.must(p.Process.Start())
	n.must(read.Close())
	n.Cleanup(func() {
		from.Close()
		write.Close()
	})
	n.awaitBegin(p)
	return p, &Stream{n, from, write}
}

// Write writes a part of the object.
func (s *Stream) Write(from, upTo int64) {
	s.Helper()
	_, err := io.Copy(s.to, io.NewSectionReader(s.from, from, upTo-from))
	s.must(err)
}

// End ends the stream.
func (s *Stream) End() {
	s.Helper()
	s.must(s.to.Close())
}

// incomplete is the suffix of a stream's name at a member that does not have all of it.
const incomplete = ".incomplete"

// AwaitStream waits until every member has so many bytes of a stream that goes on.
func (n *Net) AwaitStream(p *Push, bytes int64) {
	n.Helper()
	for _, m := range n.Members {
		n.Await(m.name+" has what was streamed", func() bool {
			info, err := os.Stat(filepath.Join(m.Into(), p.Object.Name+incomplete))
			return err == nil && info.Size() >= bytes
		})
	}
}

// Received returns how many bytes of an object a member has.
func (n *Net) Received(m *Machine, object Object) int64 {
	if info, err := os.Stat(filepath.Join(m.Into(), object.Name)); err == nil && info.Size() == object.Size {
		return object.Size
	}
	return n.Partials(m.name)
}

// AwaitBytes waits until a member has so many bytes of an object.
func (n *Net) AwaitBytes(p *Push, member string, bytes int64) {
	n.Helper()
	n.Await(fmt.Sprintf("%s has %d bytes of %s", member, bytes, p.Object.Name), func() bool {
		return n.Received(n.Machine(member), p.Object) >= bytes
	})
}

// AwaitEnd waits until a delivery has ended.
func (n *Net) AwaitEnd(p *Push) *groupv1.Delivery {
	n.Helper()
	var d *groupv1.Delivery
	defer func() {
		if n.Failed() {
			n.Logf("%v", d)
		}
	}()
	n.Await("the delivery of "+p.Object.Name+" ends", func() bool {
		d = n.Delivery(p.ID)
		p.over = d.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING
		return p.over
	})
	return d
}

// AwaitComplete waits until a delivery has ended, and checks that it is COMPLETE at every member.
func (n *Net) AwaitComplete(p *Push) *groupv1.Delivery {
	n.Helper()
	d := n.AwaitEnd(p)
	if d.GetState() != groupv1.DeliveryState_DELIVERY_STATE_COMPLETE {
		n.Errorf("the delivery of %s ended %v (%s)", p.Object.Name, d.GetState(), d.GetReason())
	}
	n.WantOutcomes(d, p, nil)
	return d
}

// WantOutcomes checks that every member has the object, except for those that have to have failed, each for a given reason.
func (n *Net) WantOutcomes(d *groupv1.Delivery, p *Push, failed map[string]string) {
	n.Helper()
	for _, r := range d.GetReceipts() {
		reason, fails := failed[r.GetMember()]
		got := strings.TrimPrefix(r.GetState().String(), "RECEIPT_STATE_")
		switch {
		case fails && (got != "FAILED" || r.GetReason() != reason):
			n.Errorf("%s is %s(%s), want FAILED(%s): %s", r.GetMember(), got, r.GetReason(), reason, r.GetDetail())
		case !fails && got != "COMPLETE":
			n.Errorf("%s is %s(%s), want COMPLETE: %s", r.GetMember(), got, r.GetReason(), r.GetDetail())
		case !fails && n.hash(n.Machine(r.GetMember()), p.Object.Name) != p.Object.Hash:
			n.Errorf("%s is COMPLETE and does not have the object", r.GetMember())
		}
	}
	if len(d.GetReceipts()) < len(failed) {
		n.Errorf("%d receipts, want %d at least", len(d.GetReceipts()), len(failed))
	}
}

// All returns the same reason for every member that was started at the beginning.
func (n *Net) All(reason string) map[string]string {
	failed := make(map[string]string)
	for _, m := range n.Members[:len(n.topology.Members)] {
		failed[m.name] = reason
	}
	return failed
}

// Partials returns how many bytes a member keeps of incomplete objects.
func (n *Net) Partials(name string) (bytes int64) {
	partials, _ := filepath.Glob(filepath.Join(n.Machine(name).Into(), ".groupcast-partial", "*", "content"))
	for _, partial := range partials {
		if info, err := os.Stat(partial); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// Has reports whether a member has an object in its place.
func (n *Net) Has(name string, object Object) bool {
	return n.hash(n.Machine(name), object.Name) == object.Hash
}

// HasDeliveries reports whether the managers know of any delivery.
func (n *Net) HasDeliveries() bool {
	n.Helper()
	return len(n.deliveries()) > 0
}

// hash returns the hash of what a member has under a name; zero if there is nothing.
func (n *Net) hash(m *Machine, name string) (sum [32]byte) {
	file, err := os.Open(filepath.Join(m.Into(), name))
	if err != nil {
		return sum
	}
	defer file.Close()
	hash := blake3.New(32, nil)
	if _, err := io.Copy(hash, file); err != nil {
		n.Errorf("read what %s has: %v", m.name, err)
	}
	return [32]byte(hash.Sum(nil))
}

// check checks what must hold whatever has happened.
func (n *Net) check() {
	for _, m := range n.Members {
		n.checkFinalNames(m)
	}
	for _, m := range n.Agents {
		n.checkBalance(m)
	}
	n.Book()
	for name, m := range n.machines {
		for _, sign := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if at := strings.Index(m.Output(), sign); at >= 0 {
				n.Errorf("%s: %.4000s", name, m.Output()[at:])
			}
		}
		if n.Failed() && m.Output() != "" {
			n.Logf("%s said:\n%s", name, bytes.TrimSpace([]byte(m.Output())))
		}
	}
}

// checkFinalNames checks that every file of a member is complete and was pushed, except for streams whose names say
// that they are incomplete.
func (n *Net) checkFinalNames(m *Machine) {
	entries, err := os.ReadDir(m.Into())
	if err != nil {
		return // it never began
	}
	for _, entry := range entries {
		if entry.IsDir() || strings.HasSuffix(entry.Name(), incomplete) || n.lossy[entry.Name()] {
			continue
		}
		got := n.hash(m, entry.Name())
		if !slices.ContainsFunc(n.objects[entry.Name()], func(o Object) bool { return o.Hash == got }) {
			n.Errorf("%s has something under the name %s that was never pushed", m.name, entry.Name())
		}
	}
}

// checkBalance checks that an agent has discarded or still holds everything that it received. The
// three counters are read one after another, so it may take a moment until they agree.
func (n *Net) checkBalance(m *Machine) {
	if m.Process == nil || n.ended(m) {
		return
	}
	var all map[string]float64
	var err error
	balanced := func() bool {
		all, err = n.Metrics(m)
		return err == nil && all["groupcast_agent_received_bytes_total"] == all["groupcast_agent_discarded_bytes_total"]+all["groupcast_agent_cache_held_bytes"]
	}
	for end := time.Now().Add(5 * time.Second); !balanced(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			n.Errorf("%s: received %.0f, discarded %.0f, holds %.0f bytes (%v)", m.name, all["groupcast_agent_received_bytes_total"],
				all["groupcast_agent_discarded_bytes_total"], all["groupcast_agent_cache_held_bytes"], err)
			return
		}
	}
}

// book returns what all programs have said so far of links that have ended.
func (n *Net) book() *links.Book {
	book := new(links.Book)
	for _, m := range n.machines {
		book.Read(m.Output())
	}
	return book
}

// isMute reports whether a machine does not say all that its links carried in a delivery.
func (n *Net) isMute(delivery, machine string) bool {
	return n.liars[machine] || n.killed[death{delivery, machine}]
}

// Book returns what both ends of all links said that these carried, once they agree. The last links may need a moment to end.
func (n *Net) Book() *links.Book {
	n.Helper()
	book := n.book()
	var err error
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = book.Check(n.isMute); err == nil {
			return book
		}
		if time.Now().After(end) {
			n.Error(err)
			return book
		}
		book = n.book()
	}
}

// WantNothingTwice checks that each byte of what was pushed came to each member only once, whoever sent it.
func (n *Net) WantNothingTwice() { n.Helper(); n.WantTwice(0) }

// WantTwice checks that all has come to each member, and at most so many bytes of an object twice.
func (n *Net) WantTwice(most int64) {
	n.Helper()
	book := n.Book()
	for _, p := range n.pushes {
		for _, m := range n.Members {
			if came := int64(book.Received(p.ID, m.name)); came < p.Object.Size || came > p.Object.Size+most {
				n.Errorf("%s: %d bytes of %s came to %s, want %d, and %d twice at most", p.ID, came, p.Object.Name, m.name, p.Object.Size, most)
			}
		}
	}
}

func (n *Net) ended(m *Machine) bool {
	select {
	case <-m.Process.Ended():
		return true
	default:
		return false
	}
}
