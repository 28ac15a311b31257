package roster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// small is a roster at work on a disk with so much room beyond its reserve.
type small struct {
	*fixture
	room uint64 // beyond the reserve, when nothing has come
	came uint64
}

func onSmall(t *testing.T, room uint64, now policy.Policy) *small {
	t.Helper()
	s := &small{fixture: start(t, now, nil), room: room}
	s.look()
	return s
}

// look has the disk be looked at, with what has come on it, and clients be told.
func (s *small) look() {
	s.free.Store(1<<20 + s.room - s.came)
	s.LookAtDisk()
	s.Review()
}

// bring brings all that is asked for of uploads until nothing more is.
func (s *small) bring(uploads ...roster.Opened) {
	s.Helper()
	for moved, idle := true, 0; moved || idle < 3; {
		moved = false
		for _, one := range uploads {
			more := one.Upload.Settled().Credit - one.Upload.Offset()
			s.must(one.Upload.Came(make([]byte, more)))
			s.came += more
			moved = moved || more > 0
		}
		s.look()
		if idle++; moved {
			idle = 0
		}
	}
}

func (s *small) wantCame(one roster.Opened, want uint64) {
	s.Helper()
	if came := one.Upload.Offset(); came != want {
		s.Errorf("%d bytes have come, want %d", came, want)
	}
}

func (s *small) wantNoRoom(session *roster.Session, path string, length int, says string) {
	s.Helper()
	_, err := s.Open(s.Context(), session.ID, session.Peer, file(path, length), false)
	if !errors.Is(err, noroom.Err) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), s.Dir) {
		s.Errorf("%s: %v, want no room, with %q", path, err, says)
	}
}

const mebibyte = 1 << 20

// Of files that do not fit together, the first becomes whole, and the other is refused until there is room.
func TestFilesThatDoNotFitTogether(t *testing.T) {
	s := onSmall(t, 50*mebibyte, policy.Policy{})
	alice, bob := s.attach("alice"), s.attach("bob")
	first := s.open(alice, file("f", 40*mebibyte))
	s.wantNoRoom(bob, "f", 40*mebibyte, "no room on disk: 30 MiB are missing in the store: 10 MiB are free beside its reserve and what other uploads still need, and 40 MiB are needed")
	stream := s.open(bob, stream("s"))
	s.bring(stream, first)
	s.wantCame(first, 40*mebibyte)
	if came := stream.Upload.Offset(); came < 9*mebibyte {
		t.Errorf("%d bytes of a stream have come, want about all that is left", came)
	}
	s.wantPaused("all has come that fits", map[string]string{"alice": roster.DiskFull, "bob": roster.DiskFull})
	s.room += 40 * mebibyte
	s.look()
	if told := bob.Told(); told.Paused != "" {
		t.Errorf("with room again he is told %+v", told)
	}
	s.bring(s.open(bob, file("f", 30*mebibyte)))
}

// A file that would need some of the reserve is refused, and holds up nobody.
func TestFileThatNeedsTheReserve(t *testing.T) {
	s := onSmall(t, 10*mebibyte, policy.Policy{})
	alice, bob := s.attach("alice"), s.attach("bob")
	s.wantNoRoom(alice, "f", 10*mebibyte+mebibyte/2, "512 KiB are missing")
	s.look()
	s.wantPaused("a file is refused", map[string]string{"alice": roster.DiskFull})
	opened := s.open(bob, file("f", 9*mebibyte))
	s.bring(opened)
	s.wantCame(opened, 9*mebibyte)
}

// What has the last room may go on, however little that is, and a file that fits beside it is taken.
func TestFilesThatFitGoOnBesideAFullDisk(t *testing.T) {
	s := onSmall(t, 10*mebibyte, policy.Policy{})
	alice, bob, carol := s.attach("alice"), s.attach("bob"), s.attach("carol")
	large := s.open(alice, file("f", 10*mebibyte-1000))
	s.look()
	s.wantPaused("all is promised to alice", map[string]string{"bob": roster.DiskFull, "carol": roster.DiskFull})
	little := s.open(bob, file("f", 900))
	s.wantPaused("there is room for bob's", map[string]string{"carol": roster.DiskFull})
	s.wantNoRoom(carol, "f", 900, "800 B are missing")
	s.bring(large, little)
	s.wantCame(large, 10*mebibyte-1000)
	s.wantCame(little, 900)
}

// beginAndLeave has a quarter of a mebibyte of a file come, and closes its upload.
func (s *small) beginAndLeave(session *roster.Session, path string, length int) {
	s.Helper()
	opened := s.open(session, file(path, length))
	s.must(opened.Upload.Came(make([]byte, mebibyte/4)))
	s.came += mebibyte / 4
	opened.Upload.Settled()
	opened.Upload.Leave(time.Now().Add(-time.Hour))
	s.Sweep(time.Now())
	s.look()
}

// goOn goes on with a file that was begun.
func (s *small) goOn(session *roster.Session, path string, length int) roster.Opened {
	s.Helper()
	opened := s.open(session, file(path, length))
	if opened.Offset != mebibyte/4 {
		s.Fatalf("it goes on at %d, want %d", opened.Offset, mebibyte/4)
	}
	return opened
}

// The room of a file whose upload is closed is there for others, and a file that goes on needs room only for what is missing.
func TestClosedUploadGivesItsRoomBack(t *testing.T) {
	s := onSmall(t, 50*mebibyte, policy.Policy{})
	alice, bob := s.attach("alice"), s.attach("bob")
	s.beginAndLeave(alice, "f", 40*mebibyte)
	s.bring(s.open(bob, file("f", 10*mebibyte)))
	s.goOn(alice, "f", 40*mebibyte)
	s.wantNoRoom(bob, "g", 1000, "1000 B are missing")
}

// An upload that makes way for another of its path leaves that one its room at once.
func TestReplacedUploadLeavesItsRoom(t *testing.T) {
	s := onSmall(t, 50*mebibyte, policy.Policy{})
	alice := s.attach("alice")
	for length := range 10 {
		s.open(alice, file("f", 40*mebibyte+length))
	}
}

// A file that goes on where there is no room for what is missing stays open, and comes when there is.
func TestFileThatGoesOnWaitsForRoom(t *testing.T) {
	s := onSmall(t, 50*mebibyte, policy.Policy{})
	alice, bob := s.attach("alice"), s.attach("bob")
	s.beginAndLeave(alice, "f", 40*mebibyte)
	other := s.open(bob, file("f", 40*mebibyte))
	again := s.goOn(alice, "f", 40*mebibyte)
	s.wantPaused("there is no room for alice's", map[string]string{"alice": roster.DiskFull})
	s.bring(again, other)
	s.wantCame(again, mebibyte/4)
	s.wantCame(other, 40*mebibyte)
	s.room = 80 * mebibyte
	s.bring(again)
	s.wantCame(again, 40*mebibyte)
}

// If others take the room that was promised, what was opened first becomes whole, and the rest waits for room: it goes on by itself.
func TestRoomThatOthersTake(t *testing.T) {
	s := onSmall(t, 50*mebibyte, policy.Policy{})
	alice, bob := s.attach("alice"), s.attach("bob")
	first, second := s.open(alice, file("f", 30*mebibyte)), s.open(bob, file("f", 20*mebibyte))
	s.room = 35 * mebibyte
	s.bring(second, first)
	s.wantCame(first, 30*mebibyte)
	s.wantPaused("bob's does not fit", map[string]string{"bob": roster.DiskFull})
	s.room = 50 * mebibyte
	s.bring(second)
	s.wantCame(second, 20*mebibyte)
}

// A client that brings nothing, though it might, keeps the room from others for a minute only.
func TestSilentClientKeepsNoRoom(t *testing.T) {
	s := onSmall(t, 50*mebibyte, policy.Policy{})
	alice, bob := s.attach("alice"), s.attach("bob")
	silent := s.open(alice, file("f", 40*mebibyte))
	s.BringNothing("alice", 50*time.Second)
	s.wantNoRoom(bob, "f", 40*mebibyte, "30 MiB are missing")
	s.BringNothing("alice", 70*time.Second)
	s.look()
	other := s.open(bob, file("f", 40*mebibyte))
	s.bring(other, silent)
	s.wantCame(other, 40*mebibyte)
	if alice, bob := alice.Told().Paused, bob.Told().Paused; alice != roster.DiskFull || bob != "" {
		t.Errorf("alice, who has sent what she was asked for, is paused %q, and bob %q", alice, bob)
	}
	s.room = 80 * mebibyte
	s.bring(silent)
	s.wantCame(silent, 40*mebibyte)
}

// A client that waits for a place keeps no room from those that have one; when it is let in, it has it at once.
func TestQueuedClientKeepsNoRoom(t *testing.T) {
	s := onSmall(t, 50*mebibyte, limited(policy.Queue))
	first, second := s.attach("large-1"), s.attach("large-2")
	waits := s.open(second, file("f", 40*mebibyte))
	whole := s.open(first, file("f", 30*mebibyte))
	s.bring(whole)
	s.wantCame(whole, 30*mebibyte)
	s.room = 80 * mebibyte
	s.look()
	first.Leave()
	s.Review()
	s.wantPaused("it is let in", map[string]string{})
	s.bring(waits)
	s.wantCame(waits, 40*mebibyte)
}
