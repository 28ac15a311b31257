package object_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
)

// What has come of earlier states of an object is removed. What goes on with the present one stays, and so do another object's, one that
// is landing, and one whose name is not known, as on a file system without extended attributes.
func TestSupersededPartialsAreRemoved(t *testing.T) {
	to := t.TempDir()
	part := func(name string, since int64) (object.Info, *object.Landing) {
		info := hello
		info.Name, info.Time = name, time.Unix(since, 0)
		landing := land(t, to, info)
		if err := put(landing, []byte("he")); err != nil {
			t.Fatal(err)
		}
		return info, landing
	}
	now, landing := part("f", 1)
	keep := map[string]bool{object.PartialOf(to, now): true}
	err := landing.Keep()
	for what, one := range map[string]struct {
		name  string
		since int64
		stays bool
	}{"earlier": {"f", 2, false}, "another": {"g", 2, true}, "unknown": {"f", 3, true}, "landing": {"f", 4, true}} {
		info, landing := part(one.name, one.since)
		keep[object.PartialOf(to, info)] = one.stays
		switch what {
		case "landing":
			defer func() { _ = landing.Remove() }() // the test has said what is wrong
		case "unknown":
			err = errors.Join(err, unix.Removexattr(filepath.Join(object.PartialOf(to, info), "journal"), "user.groupcast.name"))
			fallthrough
		default:
			err = errors.Join(err, landing.Keep())
		}
	}
	if err := errors.Join(err, object.RemoveSuperseded(t.Context(), to, now)); err != nil {
		t.Fatal(err)
	}
	for path, stays := range keep {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: it stays: %t, want %t", path, err == nil, stays)
		}
	}
	if err := object.RemoveUnfinished(t.Context(), to, now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(object.PartialOf(to, now)); err == nil {
		t.Error("what has come of the present state is there still")
	}
}
