package replicator_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// insider has the group's key and speaks as the sender does.
type insider struct {
	ear, mouth *udp.Socket
	heard      atomic.Int64
	sender     netip.AddrPort // who sent what is being looked at
}

// insider has a host hear the group and do something for each datagram, until the test ends. Each box
// is the group's of the session that the datagram is of.
func (b *bench) insider(host *lab.Host, key []byte, do func(i *insider, box *wire.Box, head wire.Head, datagram []byte)) *insider {
	b.t.Helper()
	i, place := &insider{}, b.place(host)
	err := host.Do(func() (err error) {
		if i.ear, err = multicast.Join(place); err != nil {
			return err
		}
		i.mouth, err = multicast.Open(place, 0)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	boxes := map[uint32]*wire.Box{}
	go func() {
		ended <- i.ear.Receive(func(datagram []byte, from netip.AddrPort) {
			head, err := wire.ParseHead(datagram)
			if err != nil || from == i.mouth.Addr() {
				return
			}
			i.heard.Add(1)
			i.sender = from
			if a, err := wire.OpenAnnouncement(key, head, datagram); err == nil && boxes[head.Session] == nil {
				boxes[head.Session] = a.Secret.Group()
			}
			do(i, boxes[head.Session], head, datagram)
		}, func() {})
	}()
	b.t.Cleanup(func() {
		_ = i.ear.Close()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		_ = i.mouth.Close()
	})
	return i
}

// wantNone wants a receiver to have nothing under the object's name.
func (b *bench) wantNone(i int) {
	b.t.Helper()
	if _, err := os.Stat(filepath.Join(b.dirs[i], filepath.Base(b.path))); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("receiver %d has something under the name: %v", i+1, err)
	}
}

// C43: a member forges the sender's packets with the group's key. The root rejects what comes of that:
// nobody is COMPLETE, all say that it is damaged, and so does the sender.
func TestC43MemberForgesData(t *testing.T) {
	b := onLAN(t, 3, lanShape)
	b.file(2_000_000)
	evil := b.receivers[2]
	b.receivers = b.receivers[:2]
	var forged atomic.Int64
	b.insider(evil, key, func(i *insider, box *wire.Box, head wire.Head, datagram []byte) {
		if box == nil || head.Kind != wire.Data || head.Index != 0 || head.Block%4 != 0 {
			return
		}
		for ahead := range uint32(3) {
			fake := wire.Head{Kind: wire.Data, Index: 7, Block: head.Block + 1 + ahead, Number: head.Number}
			forged.Add(1)
			_ = i.mouth.Send(box.Seal(nil, fake, make([]byte, len(datagram)-wire.Overhead)), group)
		}
	})
	receipts := b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	if err != nil || forged.Load() == 0 {
		t.Fatalf("%d forged: %v", forged.Load(), err)
	}
	for i, one := range receipts {
		if r := <-one; !errors.Is(r.err, receive.ErrDamaged) {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
		b.wantNone(i)
	}
	for _, m := range result.Members {
		if m.Reason != wire.Damaged.String() {
			t.Errorf("%s: %v %s", m.Name, m.Outcome, m.Reason)
		}
	}
}

// C44: what was sent in an earlier session is sent again in the next one, whose key is the same: none
// of it is taken.
func TestC44ReplayInTheNextSession(t *testing.T) {
	b := onLAN(t, 3, lanShape)
	b.file(1_000_000)
	stranger := b.receivers[2]
	b.receivers = b.receivers[:2]
	var recorded [][]byte
	var replays atomic.Bool
	var replayed atomic.Int64
	b.insider(stranger, key, func(i *insider, _ *wire.Box, head wire.Head, datagram []byte) {
		if !replays.Load() {
			recorded = append(recorded, append([]byte(nil), datagram...))
			return
		}
		for n := 0; n < 2 && len(recorded) > 0; n++ {
			_ = i.mouth.Send(recorded[0], group)
			recorded = recorded[1:]
			replayed.Add(1)
		}
	})
	receipts := b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	b.wantComplete(result, err, receipts...)
	replays.Store(true)
	seen := b.sniff(b.sender)
	b.file(1_100_000)
	receipts = b.receiveAll(t.Context())
	result, err = b.send(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := b.sentToGroup(result, seen())
	for n, one := range receipts {
		r := <-one
		if r.err != nil || r.Root != result.Root {
			t.Errorf("receiver %d: %v", n+1, r.err)
		}
		if r.Stats.Datagrams-r.Stats.Forged > sent {
			t.Errorf("receiver %d took %d datagrams, %d were sent", n+1, r.Stats.Datagrams-r.Stats.Forged, sent)
		}
		b.wantOnce(n, r)
	}
	b.wantCopies(0, 1)
	if replayed.Load() == 0 {
		t.Error("nothing was replayed")
	}
}

// C45: a sender that crashes and starts again uses no key with a number twice, in either direction.
func TestC45NoNonceTwice(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(2_000_000)
	seen := b.sniff(b.sender)
	ctx, crash := context.WithCancel(t.Context())
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	receipts := b.receiveAll(t.Context())
	if _, err := b.send(ctx, func(c *send.Config) { c.Source = &failing{Object: source, after: 1_000_000, then: crash} }); !errors.Is(err, context.Canceled) {
		t.Errorf("the sender ended with %v", err)
	}
	for _, one := range receipts {
		<-one
	}
	receipts = b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	b.wantComplete(result, err, receipts...)
	type use struct {
		session  uint32
		by, with netip.AddrPort
		public   string // of a JOIN: it has a key of its own
		number   uint64
	}
	used, sessions := map[use]string{}, map[uint32]bool{}
	for _, p := range seen() {
		for rest := p.payload; len(rest) > 0; rest = rest[min(len(rest), result.Datagram):] {
			datagram := rest[:min(len(rest), result.Datagram)]
			head, err := wire.ParseHead(datagram)
			if err != nil {
				continue
			}
			one := use{session: head.Session, by: p.from, with: p.to, number: head.Number}
			if head.Kind == wire.Join {
				one.public = string(datagram[16:48])
			}
			sessions[head.Session] = true
			if before, twice := used[one]; twice && before != string(datagram) {
				t.Errorf("%v, number %d, from %v to %v was used twice", head.Kind, head.Number, p.from, p.to)
			}
			used[one] = string(datagram)
		}
	}
	t.Logf("%d numbers in %d sessions", len(used), len(sessions))
	if len(sessions) != 2 || len(used) < 1500 {
		t.Errorf("%d numbers of %d sessions were seen", len(used), len(sessions))
	}
}

// C46: a host that was in an earlier replication, and still has its key, reads nothing of the next, which has
// another, and injects nothing.
func TestC46FormerMember(t *testing.T) {
	b := onLAN(t, 3, lanShape)
	b.file(1_000_000)
	was := *b
	former := was.receive(t.Context(), 2, func(c *receive.Config) { c.Key, c.Await = []byte("the key before"), 3*time.Second })
	evil := b.receivers[2]
	b.receivers = b.receivers[:2]
	var opened atomic.Int64
	old := wire.NewSecret([]byte("the key before"), wire.Salt{1}).Group()
	i := b.insider(evil, []byte("the key before"), func(i *insider, box *wire.Box, head wire.Head, datagram []byte) {
		if box != nil {
			opened.Add(1)
		}
		if _, err := old.Open(nil, head, datagram); err == nil {
			opened.Add(1)
		}
		// It sends what it may have kept, in this session's name, too.
		fake := old.Seal(nil, head, make([]byte, 1000))
		_ = i.mouth.Send(fake, group)
		copy(fake[2:6], datagram[2:6])
		_ = i.mouth.Send(fake, group)
	})
	receipts := b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
	if r := <-former; !errors.Is(r.err, receive.ErrNotHeard) {
		t.Errorf("the one that has the old key: %v", r.err)
	}
	if i.heard.Load() == 0 || opened.Load() != 0 {
		t.Errorf("of %d datagrams, %d were opened", i.heard.Load(), opened.Load())
	}
}

// C47: JOINs in somebody else's name, even by one that has the key, bring that one no data, and never more
// bytes than were sent in its name.
func TestC47SpoofedJoins(t *testing.T) {
	b := onLAN(t, 4, lanShape)
	b.file(1_000_000)
	victim, evil := b.receivers[2], b.receivers[3]
	b.receivers = b.receivers[:2]
	at := netip.AddrPortFrom(victim.Addr(), 5555)
	seen, spoof := b.sniff(victim), b.spoofer(evil)
	var sent atomic.Int64
	joins := 0
	b.insider(evil, key, func(i *insider, _ *wire.Box, head wire.Head, datagram []byte) {
		a, err := wire.OpenAnnouncement(key, head, datagram)
		if err != nil || joins >= 40 {
			return
		}
		for range 10 {
			joins++
			public := make([]byte, wire.PublicSize)
			public[0], public[1] = 9, byte(joins)
			join := a.Secret.JoinAs(0, public, wire.Joining{Heard: uint16(a.Size), Buffer: 1 << 20, Name: "victim"})
			for _, datagram := range [][]byte{join, join[:60], append([]byte(nil), datagram[:100]...)} {
				if spoof.send(at, i.sender, datagram) == nil {
					sent.Add(int64(len(datagram)))
				}
			}
		}
	})
	receipts := b.receiveAll(t.Context())
	result, err := b.send(t.Context(), func(c *send.Config) { c.Patience = 3 * time.Second })
	if err != nil {
		t.Error(err)
	}
	for i, one := range receipts {
		if r := <-one; r.err != nil || r.Root != result.Root {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
	}
	b.wantCopies(0, 1)
	came := 0
	for _, p := range seen() {
		if p.to != at {
			continue
		}
		came += len(p.payload)
		if head, err := wire.ParseHead(p.payload); err != nil || head.Kind == wire.Data || head.Kind == wire.Parity {
			t.Errorf("%d bytes of %v came to who never asked (%v)", len(p.payload), head.Kind, err)
		}
	}
	t.Logf("%d bytes in its name, %d bytes to it; all done after %v", sent.Load(), came, result.Took)
	if sent.Load() == 0 || came > int(sent.Load()) {
		t.Errorf("%d bytes were sent in its name, and %d came to it", sent.Load(), came)
	}
}

// C55: names that may not be, announced by one that has the key: nobody opens anything for them, and there
// is nothing in the directory, or above it. C56: neither for kinds and lengths that cannot be.
func TestC55C56AbsurdAnnouncements(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	above := t.TempDir()
	b.dirs[0] = filepath.Join(above, "inside")
	if err := os.Mkdir(b.dirs[0], 0o700); err != nil {
		t.Fatal(err)
	}
	absurd := []wire.Announcement{
		{Kind: 0, Name: "x"},
		{Kind: 9, Name: "x", Length: 1},
		{Kind: uint8(object.File), Name: "x", Length: 1 << 63},
		{Kind: uint8(object.File), Name: "x", Length: 1<<64 - 1},
		{Kind: uint8(object.File), Name: "x", Length: 1<<63 - 1},
		{Kind: uint8(object.File), Name: "x", Length: 1 << 50},
		{Kind: uint8(object.Directory), Name: "x", Length: 1 << 62},
		{Kind: uint8(object.Directory), Name: "x"},
	}
	for _, name := range []string{
		"", ".", "..", "../x", "a/b", "/etc/x", "a\x00b", "x\n", "..\\x", "\xff\xfe", ".groupcast-partial", strings.Repeat("n", 256), "a/../../x", "./x",
	} {
		absurd = append(absurd, wire.Announcement{Kind: uint8(object.File), Name: name[:min(len(name), 255)], Length: 1, Permissions: 0o644})
	}
	mouth := b.mouth(b.sender)
	defer mouth.Close()
	for n, a := range absurd {
		a.Sender = mouth.Addr()
		heard := b.receive(t.Context(), 0, func(c *receive.Config) { c.Await, c.Patience = 300*time.Millisecond, 300*time.Millisecond })
		secret := wire.NewSecret(key, wire.Salt{byte(n), 1})
		var r received
		for waiting := true; waiting; {
			_ = mouth.Send(secret.Group().Announce(uint64(n), wire.Salt{byte(n), 1}, append([]byte{9}, make([]byte, 31)...), a, 1400), group)
			select {
			case r = <-heard:
				waiting = false
				time.Sleep(50 * time.Millisecond) // the last that was said is on its way, and the next would hear it
			case <-time.After(20 * time.Millisecond):
			}
		}
		isJust := slices.Contains([]string{strings.Repeat("n", 255), "x\n", "..\\x"}, a.Name) // odd, and allowed
		if r.err == nil || isJust != errors.Is(r.err, receive.ErrSenderGone) {
			t.Errorf("%d bytes of %d as %.20q: %v", a.Length, a.Kind, a.Name, r.err)
		}
	}
	left := 0
	err := filepath.WalkDir(above, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.Contains(path, ".groupcast-partial") {
			left++
			t.Errorf("%s is there", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
