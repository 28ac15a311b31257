package roster_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// A client is shown as waiting for the disk if that has no room for its file; other clients are not.
func TestWhoWaitsForRoomIsShown(t *testing.T) {
	disk := testdisk.Memory(t, "size=4m")
	f := start(t, policy.Policy{}, func(env *roster.Env) { env.Dir = disk })
	alice, bob := f.attach("alice"), f.attach("bob")
	f.open(bob, file("small", 1000))
	if _, err := f.Open(f.Context(), alice.ID, alice.Peer, file("large", 10<<20), false); !errors.Is(err, noroom.Err) {
		t.Fatalf("%v, want no room", err)
	}
	for _, one := range f.Clients() {
		if want := map[string]string{"alice": roster.DiskFull}[one.Name]; one.Paused != want {
			t.Errorf("%s waits for %q, want %q", one.Name, one.Paused, want)
		}
	}
}

// However fast streams and files come, and however often the disk is looked at, no more is asked for than leaves it its reserve.
func TestReserveIsLeftOfTheDisk(t *testing.T) {
	const free, reserve = 20 << 20, 1 << 20
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	f.free.Store(free)
	f.LookAtDisk()
	uploads := []roster.Opened{f.open(alice, stream("s")), f.open(alice, file("f", 12<<20))}
	came := 0
	for range 40 {
		for _, one := range uploads {
			answer := one.Upload.Settled()
			more := int(answer.Credit - one.Upload.Offset())
			f.must(one.Upload.Came(make([]byte, more)))
			came += more
			f.free.Store(free - uint64(came))
		}
		f.LookAtDisk()
	}
	if came > free-reserve {
		t.Errorf("%d bytes came where there was room for %d beside the reserve", came, free-reserve)
	}
	if came < free-reserve-1<<20 {
		t.Errorf("%d bytes came, want about all that there is room for, %d", came, free-reserve)
	}
	if told := alice.Told(); told.Paused != roster.DiskFull {
		t.Errorf("it is told %+v", told)
	}
}

// Who was asked for all that there is room for, and has not sent it yet, may send it, and no more; anybody else waits. If something else
// takes the room, all wait.
func TestWhatWasAskedForMayCome(t *testing.T) {
	const free = 1<<20 + 300<<10 // the reserve, and a little
	f := start(t, policy.Policy{}, nil)
	f.free.Store(free)
	f.LookAtDisk()
	alice := f.attach("alice")
	quiet := f.open(alice, stream("s"))
	f.open(f.attach("bob"), stream("s"))
	f.LookAtDisk()
	onlyBob, both := map[string]string{"bob": roster.DiskFull}, map[string]string{"alice": roster.DiskFull, "bob": roster.DiskFull}
	f.wantPaused("alice was asked for all", onlyBob)
	f.free.Store(free / 2)
	f.LookAtDisk()
	f.wantPaused("half the room is gone", both)
	f.free.Store(free)
	f.LookAtDisk()
	f.wantPaused("it is there again", onlyBob)
	asked := quiet.Upload.Settled().Credit
	f.must(quiet.Upload.Came(make([]byte, asked-100<<10)))
	f.free.Store(free - (asked - 100<<10))
	f.LookAtDisk()
	f.wantPaused("nearly all has come", both)
}

// A stream that may have no more on the disk, and asks again and again, takes none of the room that others have.
func TestWhoMayHaveNoMoreTakesNoRoom(t *testing.T) {
	f := start(t, policy.Policy{Rules: []policy.Rule{{Clients: []string{"alice"}, Share: policy.Share{MaxStored: 1 << 20}}}}, nil)
	alice, bob := f.attach("alice"), f.attach("bob")
	full := f.open(alice, stream("s"))
	for range 3 {
		f.must(full.Upload.Came(make([]byte, full.Upload.Settled().Credit-full.Upload.Offset())))
	}
	f.free.Store(6 << 20) // five more than the reserve
	f.LookAtDisk()
	for range 100 {
		full.Upload.Draw()
	}
	opened := f.open(bob, file("f", 4<<20))
	for range 10 {
		f.must(opened.Upload.Came(make([]byte, opened.Upload.Settled().Credit-opened.Upload.Offset())))
	}
	if came := opened.Upload.Offset(); came != 4<<20 {
		t.Errorf("%d bytes of bob's came, want all", came)
	}
}

// A client that goes on with an upload whose directory was taken away meanwhile begins again.
func TestRemovedUploadBeginsAgain(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	content := make([]byte, 100<<10)
	spec := file("results/f", len(content))
	first := f.open(alice, spec)
	f.must(first.Upload.Came(content[:50<<10]))
	first.Upload.Settled()
	alice.Leave()
	f.must(os.RemoveAll(filepath.Join(f.Dir, "alice")))
	alice = f.attach("alice")
	again := f.open(alice, spec)
	if again.Offset != 0 {
		t.Fatalf("what was removed is gone on with at %d", again.Offset)
	}
	f.must(again.Upload.Came(content))
	path, err := f.finish(alice, again, content)
	f.must(err)
	if _, err := os.Stat(filepath.Join(f.Dir, path)); err != nil {
		t.Error(err)
	}
}

// A client whose stream is removed while it is open is told so, once, and begins it anew.
func TestRemovedStreamIsTold(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	opened := f.open(alice, stream("log"))
	f.must(opened.Upload.Came([]byte("some")))
	f.must(os.RemoveAll(filepath.Join(f.Dir, "alice/log.stream")))
	f.must(opened.Upload.Came([]byte("more"))) // the first may have been committed before
	for end := time.Now().Add(20 * time.Second); opened.Upload.Failure() == nil; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are said to be on disk", opened.Upload.Answer().Ack)
		}
	}
	if _, err := f.Open(f.Context(), alice.ID, alice.Peer, stream("log"), false); !errors.Is(err, object.ErrDamaged) {
		t.Errorf("it is told %v", err)
	}
	if again := f.open(alice, stream("log")); again.Offset != 0 {
		t.Errorf("it goes on at %d", again.Offset)
	}
}

// A bundle is asked for no more than there is room for twice, as its files are written beside it.
func TestBundlesLeaveRoomForTheirFiles(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	f.free.Store(1<<20 + 300_000) // the reserve, and a little
	f.LookAtDisk()
	spec := file("bundle", 250_000)
	spec.Bundle = true
	upload := f.open(f.attach("alice"), spec).Upload
	if credit := upload.Answer().Credit; credit != 150_000 {
		t.Errorf("%d bytes are asked for where %d fit", credit, 300_000)
	}
	f.must(upload.Came(make([]byte, 150_000)))
	f.free.Store(1<<20 + 300_000) // what came is there, and as much is to come
	f.LookAtDisk()
	f.wantPaused("there is room for its files alone", map[string]string{"alice": roster.DiskFull})
	f.free.Store(1 << 30)
	f.LookAtDisk()
	if credit := upload.Settled().Credit; credit != 250_000 {
		t.Errorf("%d bytes are asked for where all fit", credit)
	}
}

// Room is counted in a disk's fragments. A disk that tells of no blocks does not count as full.
func TestFreeIsCountedInFragments(t *testing.T) {
	for what, tt := range map[string]struct {
		disk unix.Statfs_t
		want uint64
	}{
		"a disk":        {unix.Statfs_t{Blocks: 100, Bavail: 10, Bsize: 4096, Frsize: 4096}, 40960},
		"large blocks":  {unix.Statfs_t{Blocks: 100, Bavail: 10, Bsize: 1 << 20, Frsize: 4096}, 40960},
		"no fragments":  {unix.Statfs_t{Blocks: 100, Bavail: 10, Bsize: 4096}, 40960},
		"full":          {unix.Statfs_t{Blocks: 100, Bsize: 4096, Frsize: 4096}, 0},
		"does not tell": {unix.Statfs_t{Bsize: 4096, Frsize: 4096}, math.MaxInt64},
	} {
		if free := roster.FreeOf(&tt.disk); free != tt.want {
			t.Errorf("%s: %d bytes are free, want %d", what, free, tt.want)
		}
	}
}
