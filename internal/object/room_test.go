package object_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// landWhole lets a source land, from where a landing is to the end.
func landWhole(t testing.TB, source *object.Source, landing *object.Landing) error {
	t.Helper()
	if err := deliver(source, landing, source.Info().Length, whole); err != nil {
		return err
	}
	return landing.Complete(source.Info().Length, rootOf(t, source), true)
}

// wantNoRoomIn wants it said that there is no room in the directory that the user has named, not where the bytes are below it.
func wantNoRoomIn(t testing.TB, err error, dir string) {
	t.Helper()
	if !errors.Is(err, noroom.Err) || !strings.Contains(err.Error(), "in "+dir) || strings.Contains(err.Error(), ".groupcast-partial") {
		t.Fatalf("%v, want no room in %s", err, dir)
	}
	if said := err.Error(); strings.Count(said, dir) > 1 || strings.Count(said, "no room")+strings.Count(said, "no space") > 1 {
		t.Errorf("it says twice what it says: %v", err)
	}
}

// C48: what cannot fit is refused before the first byte, and leaves nothing.
func TestC48NoRoomAtOnce(t *testing.T) {
	disk := testdisk.Memory(t, "size=8m,nr_inodes=40")
	for name, content := range map[string]map[string]string{
		"bytes":  {"it": strings.Repeat("x", 9<<20)},
		"inodes": many(60),
	} {
		from := t.TempDir()
		plant(t, from, content)
		source := open(t, filepath.Join(from, "it"))
		landing, err := object.Land(t.Context(), disk, source.Info())
		if err == nil {
			err = landWhole(t, source, landing)
			if err := landing.Remove(); err != nil {
				t.Error(err)
			}
		}
		wantNoRoomIn(t, err, disk)
		if left := tree(t, disk); len(left) != 1 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// Where little is missing, that is told, and not two numbers that look alike.
func TestNoRoomSaysWhatIsMissing(t *testing.T) {
	disk, from := testdisk.Memory(t, "size=8m"), t.TempDir()
	plant(t, from, map[string]string{"it": strings.Repeat("x", 8<<20+40<<10)})
	_, err := object.Land(t.Context(), disk, open(t, filepath.Join(from, "it")).Info())
	if want := regexp.MustCompile(`no room on disk: [4-7]\d KiB are missing in .*: 8.0 MiB are free and 8.0 MiB are needed`); err == nil || !want.MatchString(err.Error()) {
		t.Errorf("%v, want %s", err, want)
	}
}

func many(files int) map[string]string {
	content := make(map[string]string)
	for i := range files {
		content[fmt.Sprintf("it/%d", i)] = fmt.Sprint("content of ", i)
	}
	return content
}

// C48: the disk fills up half way, by bytes. The landing says so; removed, it
// leaves nothing and gives others their room back; kept, it goes on later.
func TestC48NoRoomHalfWay(t *testing.T) {
	disk := testdisk.Memory(t, "size=8m")
	from := t.TempDir()
	plant(t, from, map[string]string{"it": strings.Repeat("x", 6<<20), "other": strings.Repeat("y", 1<<20)})
	source, other := open(t, filepath.Join(from, "it")), open(t, filepath.Join(from, "other"))
	for _, keep := range []bool{false, true} {
		landing, neighbour := land(t, disk, source.Info()), land(t, disk, other.Info())
		if err := deliver(other, neighbour, 1<<19, whole); err != nil {
			t.Fatal(err)
		}
		if err := deliver(source, landing, 3<<20, whole); err != nil {
			t.Fatal(err)
		}
		filler := filepath.Join(disk, "filler")
		testdisk.Fill(t, filler)
		wantNoRoomIn(t, landWhole(t, source, landing), disk)
		if !missing(filepath.Join(disk, "it")) {
			t.Error("it has its name")
		}
		if keep {
			if err := os.Truncate(filler, 0); err != nil { // without a page for the claim it could not be kept
				t.Fatal(err)
			}
			if err := landing.Keep(); err != nil {
				t.Fatal(err)
			}
			landing = land(t, disk, source.Info())
			if landing.Offset() < 3<<20 {
				t.Errorf("goes on at %d, want %d", landing.Offset(), 3<<20)
			}
		} else if err := landing.Remove(); err != nil || !missing(object.PartialOf(disk, source.Info())) {
			t.Errorf("%v, want the partial gone", err)
		}
		if err := landWhole(t, other, neighbour); err != nil {
			t.Errorf("the neighbour: %v", err)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if keep {
			if err := landWhole(t, source, landing); err != nil {
				t.Errorf("with room again: %v", err)
			}
		}
	}
	if !missing(filepath.Join(disk, ".groupcast-partial")) {
		t.Error("partials are left")
	}
}

// That there is no room for the rest is said without a look at what is there: whoever tries until there is room would read it each time.
func TestNoRoomIsSaidBeforeAnythingIsRead(t *testing.T) {
	disk, from := testdisk.Memory(t, "size=8m"), t.TempDir()
	plant(t, from, map[string]string{"it": strings.Repeat("x", 6<<20)})
	source := open(t, filepath.Join(from, "it"))
	landing := land(t, disk, source.Info())
	if err := errors.Join(deliver(source, landing, 3<<20, whole), landing.Keep()); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "filler")
	testdisk.Fill(t, filler)
	read := new(pulse.Pulse)
	_, err := object.Land(pulse.In(t.Context(), read), disk, source.Info())
	wantNoRoomIn(t, err, disk)
	if beats := read.Beats(); beats > 0 {
		t.Errorf("the disk did something %d times, as if 3 MiB had been read", beats)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	landing = land(t, disk, source.Info())
	if landing.Offset() < 3<<20 {
		t.Errorf("with room again it goes on at %d, want %d", landing.Offset(), 3<<20)
	}
	if err := landWhole(t, source, landing); err != nil {
		t.Error(err)
	}
}

// What a landing that was killed had written and not claimed has no room of its own: it comes again.
func TestUnclaimedLeavesItsRoom(t *testing.T) {
	disk, from := testdisk.Memory(t, "size=8m"), t.TempDir()
	mebibyte := strings.Repeat("x", 1<<20)
	plant(t, from, map[string]string{
		"file":     strings.Repeat(mebibyte, 6),
		"tree/a":   strings.Repeat(mebibyte, 3),
		"tree/b/c": strings.Repeat(mebibyte, 3),
		"tree/d/e": "",
	})
	for name, unclaimed := range map[string]map[string]string{
		"file": {"content": strings.Repeat(mebibyte, 5)},
		"tree": {"content/a": strings.Repeat(mebibyte, 2), "content/b/c": strings.Repeat(mebibyte, 3)}, // c came ahead
	} {
		source := open(t, filepath.Join(from, name))
		landing := land(t, disk, source.Info())
		if err := errors.Join(deliver(source, landing, 1<<20, whole), landing.Keep()); err != nil {
			t.Fatal(err)
		}
		plant(t, object.PartialOf(disk, source.Info()), unclaimed)
		landing = land(t, disk, source.Info())
		if landing.Offset() != 1<<20 {
			t.Errorf("%s goes on at %d, want %d", name, landing.Offset(), 1<<20)
		}
		if err := landWhole(t, source, landing); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(filepath.Join(disk, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// C48: the same, by files.
func TestC48NoInodesHalfWay(t *testing.T) {
	disk := testdisk.Memory(t, "size=8m,nr_inodes=100")
	from := t.TempDir()
	plant(t, from, many(60))
	source := open(t, filepath.Join(from, "it"))
	landing := land(t, disk, source.Info())
	if err := deliver(source, landing, source.Info().Length/2, whole); err != nil {
		t.Fatal(err)
	}
	var fillers []string
	for i := 0; ; i++ {
		filler := filepath.Join(disk, fmt.Sprint("filler-", i))
		if err := os.WriteFile(filler, nil, 0o600); err != nil {
			break
		}
		fillers = append(fillers, filler)
	}
	if err := landWhole(t, source, landing); !errors.Is(err, noroom.Err) {
		t.Fatalf("without inodes: %v, want no room", err)
	}
	if err := landing.Keep(); err != nil {
		t.Fatal(err)
	}
	for _, filler := range fillers {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	if err := landWhole(t, source, land(t, disk, source.Info())); err != nil {
		t.Errorf("with inodes again: %v", err)
	}
}

// What is left of a disk to others is left, by what has no room from the beginning, and by what comes while others write there.
func TestReserveIsLeftToOthers(t *testing.T) {
	disk, from := testdisk.Memory(t, "size=8m"), t.TempDir()
	plant(t, from, map[string]string{"it": strings.Repeat("x", 4<<20)})
	source := open(t, filepath.Join(from, "it"))
	_, err := object.Land(object.Leaving(t.Context(), 5<<20), disk, source.Info())
	if err == nil || !errors.Is(err, noroom.Err) || !strings.Contains(err.Error(), "5.0 MiB are left to others") {
		t.Errorf("lands beside a reserve that it does not leave: %v", err)
	}
	landing, err := object.Land(object.Leaving(t.Context(), 3<<20), disk, source.Info())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk, "others"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err = deliver(source, landing, 5<<19, whole)
	for deadline := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		err = deliver(source, landing, landing.Offset()+1, whole)
	}
	if !errors.Is(err, noroom.Err) || !strings.Contains(err.Error(), "are left to others") {
		t.Errorf("goes on into the reserve: %v", err)
	}
	if err := landing.Remove(); err != nil {
		t.Error(err)
	}
}
