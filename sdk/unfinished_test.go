package sdk

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/digest"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// leaveUnfinished leaves the first half of an object's bytes, as of a delivery that failed.
func leaveUnfinished(t *testing.T, into string, info object.Info) {
	t.Helper()
	landing, err := object.Land(t.Context(), into, info)
	if err != nil {
		t.Fatal(err)
	}
	_, err = landing.Write(make([]byte, info.Length/2))
	if err := errors.Join(err, landing.Keep()); err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, into, true)
}

func wantUnfinished(t *testing.T, into string, there bool) {
	t.Helper()
	left, _ := os.ReadDir(filepath.Join(into, ".groupcast-partial"))
	if len(left) > 0 != there {
		t.Errorf("%d unfinished objects are there, want some: %t", len(left), there)
	}
}

// receivingOf is a member that receives a sealed object.
func receivingOf(into string, info object.Info, content []byte) *receiving {
	var hash digest.Hash
	_, _ = hash.Write(content)
	root := hash.Sum()
	s := &Session{client: &Client{log: slog.New(slog.DiscardHandler)}}
	s.attendance = newAttendance(s.client)
	s.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{{Delivery: "d", Sealed: true, Root: root[:], Length: info.Length}}})
	return &receiving{session: s, id: "d", info: info, options: ReceiveOptions{Into: into}, changed: make(chan struct{})}
}

// What has come of a file that its job went on writing, so that no later push has the same, is removed where there is no room for the next
// state, and when that has come. C48: where there is none all the same, nothing is left in the way, not even of the same.
func TestUnfinishedObjectsAreNotInTheWayOfTheNext(t *testing.T) {
	into := testdisk.New(t, "16m").Dir // whose file system has extended attributes, which tell the names
	state := func(since int64, length uint64) object.Info {
		return object.Info{Name: "it", Kind: object.File, Length: length, Mode: 0o600, Time: time.Unix(since, 0)}
	}
	leaveUnfinished(t, into, state(1, 10<<20))
	content := bytes.Repeat([]byte("x"), 10<<20)
	r := receivingOf(into, state(2, 10<<20), content)
	landing, err := r.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := landing.Write(content); err != nil {
		t.Fatal(err)
	}
	leaveUnfinished(t, into, state(3, 1<<20))
	if _, err := r.complete(t.Context(), landing); err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, into, false)

	if err := os.Remove(r.path()); err != nil {
		t.Fatal(err)
	}
	leaveUnfinished(t, into, r.info)
	r.options.Reserve = 1 << 30
	if landing, err := r.begin(t.Context()); !noroom.Is(err) {
		t.Errorf("%v, %v, want no room", landing, err)
	}
	wantUnfinished(t, into, false)
}

// A landing that is killed when the object is in its place leaves what that has replaced: it is removed when the object is found.
func TestWhatAnObjectHasReplacedIsRemovedWhenItIsFound(t *testing.T) {
	into, content := t.TempDir(), []byte("weights")
	if err := os.WriteFile(filepath.Join(into, "it"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	r := receivingOf(into, object.Info{Name: "it", Kind: object.File, Length: uint64(len(content)), Mode: 0o600}, content)
	leaveUnfinished(t, into, r.info)
	if _, is := r.alreadyHere(t.Context()); !is {
		t.Error("the object is not here")
	}
	wantUnfinished(t, into, false)
}
