package receive_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/receive"
)

// What was left of a source that has changed since goes when something else comes, a week later; what may be gone on
// with stays, and so does what is gone on with at last.
func TestWhatWasAbandonedIsRemoved(t *testing.T) {
	dir := t.TempDir()
	info := func(day int64) object.Info {
		return object.Info{Name: "disk.img", Kind: object.File, Length: 1000, Mode: 0o644, Time: time.Unix(day*24*3600, 0)}
	}
	begin := func(day int64) *object.Landing {
		t.Helper()
		landing, err := receive.LandObject(t.Context(), dir, info(day))
		if err != nil {
			t.Fatal(err)
		}
		return landing
	}
	for day := range int64(10) {
		landing := begin(day)
		if _, err := landing.Write([]byte("some")); errors.Join(err, landing.Keep()) != nil {
			t.Fatal(err)
		}
		journals, err := filepath.Glob(filepath.Join(dir, ".groupcast-partial", "*", "journal"))
		if err != nil {
			t.Fatal(err)
		}
		for _, journal := range journals { // a day passes
			was, err := os.Stat(journal)
			if err == nil {
				then := was.ModTime().Add(-24 * time.Hour)
				err = os.Chtimes(journal, then, then)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	oldest := begin(3)
	defer func() { _ = oldest.Remove() }()
	if oldest.Offset() != 4 {
		t.Errorf("the oldest goes on at %d", oldest.Offset())
	}
	left, err := os.ReadDir(filepath.Join(dir, ".groupcast-partial"))
	if err != nil || len(left) != 7 {
		t.Errorf("%d of 10 are left: %v", len(left), err)
	}
}
