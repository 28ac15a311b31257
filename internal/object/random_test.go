package object_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// growRandom makes a random file or tree.
func growRandom(t *rapid.T, dir string) (path string) {
	path = filepath.Join(dir, "it")
	sizes := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 20), rapid.IntRange(0, 3<<20))
	modes := rapid.SampledFrom([]os.FileMode{0o644, 0o400, 0o755, 0o777, 0})
	write := func(path string) {
		content := make([]byte, sizes.Draw(t, "size"))
		for i := range content {
			content[i] = byte(i>>8 ^ i*len(content))
		}
		must(t, os.WriteFile(path, content, 0o600))
		must(t, os.Chmod(path, modes.Draw(t, "mode")))
	}
	if rapid.Bool().Draw(t, "is file") {
		write(path)
		return path
	}
	must(t, os.Mkdir(path, 0o755))
	directories := []string{path}
	for i := range rapid.IntRange(0, 12).Draw(t, "entries") {
		name := fmt.Sprint(rapid.SampledFrom([]string{"a", "a-", "é", "Z", " "}).Draw(t, "name"), i)
		at := filepath.Join(rapid.SampledFrom(directories).Draw(t, "in"), name)
		if rapid.Bool().Draw(t, "is directory") {
			must(t, os.Mkdir(at, 0o755))
			directories = append(directories, at)
		} else {
			write(at)
		}
	}
	for i := len(directories) - 1; i >= 0; i-- {
		must(t, os.Chmod(directories[i], rapid.SampledFrom([]os.FileMode{0o755, 0o700, 0o555}).Draw(t, "directory mode")))
	}
	return path
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever the tree, the sizes of pieces, and how often the landing is
// interrupted or begun again: what lands is what was sent, and what was kept, and no
// more, is not asked for again.
func TestRandomTreesLand(t *testing.T) {
	testdisk.NeedRoot(t) // it reads files of mode 0
	object.ClaimOften(t, 1<<18, time.Millisecond)
	object.LookAtOnce(t)
	rapid.Check(t, func(rt *rapid.T) {
		from, to := t.TempDir(), t.TempDir()
		source, err := object.Open(t.Context(), growRandom(rt, from))
		must(rt, err)
		defer source.Close()
		length := source.Info().Length
		root, err := source.Root(t.Context())
		must(rt, err)
		durable, ctx := rapid.Bool().Draw(rt, "durable"), t.Context()
		if rapid.Bool().Draw(rt, "watched") {
			ctx = pulse.In(ctx, new(pulse.Pulse))
		}
		landing, err := object.Land(ctx, to, source.Info())
		must(rt, err)
		defer func() { _ = landing.Remove() }()
		for range rapid.IntRange(0, 4).Draw(rt, "interruptions") {
			upTo := rapid.Uint64Range(landing.Offset(), length).Draw(rt, "up to")
			must(rt, deliver(source, landing, upTo, pieces(rt)))
			if rapid.Bool().Draw(rt, "more, scattered") {
				must(rt, landScrambled(rt, source, landing, rapid.Uint64Range(0, 3).Draw(rt, "left out")))
			}
			want := uint64(0)
			switch rapid.SampledFrom([]string{"keep", "keep", "remove"}).Draw(rt, "end") {
			case "remove":
				must(rt, landing.Remove())
			case "keep":
				if landing.Places() { // a head counts whole
					want = landing.Offset()
				}
				must(rt, landing.Keep())
			}
			landing, err = object.Land(ctx, to, source.Info())
			must(rt, err)
			if landing.Offset() != want {
				rt.Fatalf("goes on at %d of %d, want %d", landing.Offset(), length, want)
			}
		}
		if rapid.Bool().Draw(rt, "scattered") {
			must(rt, landScrambled(rt, source, landing, 0))
		}
		must(rt, deliver(source, landing, length, pieces(rt)))
		must(rt, landing.Complete(length, root, durable))
		if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
			rt.Fatalf("-sent +landed:\n%.2000s", diff)
		}
		there, found, err := object.Existing(t.Context(), to, source.Info())
		if err != nil || !found || there != root {
			rt.Fatalf("existing: %v %v %v, want %v", there, found, err, root)
		}
	})
}

// landScrambled lands what is missing in pieces, in any order, but for the last few to come. What comes before it is
// known where it belongs comes again.
func landScrambled(t *rapid.T, source *object.Source, landing *object.Landing, leaveOut uint64) error {
	reader := source.NewReader()
	defer reader.Close()
	from := landing.Offset()
	missing := source.Info().Length - from
	size := max(1, missing/rapid.Uint64Range(1, 40).Draw(t, "pieces"))
	var order []uint64
	for at := from; at < from+missing; at += size {
		order = append(order, at)
	}
	order = rapid.Permutation(order).Draw(t, "order")
	ahead := make(map[uint64]bool)
	for uint64(len(order)) > leaveOut {
		at := order[0]
		order = order[1:]
		piece := make([]byte, min(size, from+missing-at))
		if err := reader.ReadAt(piece, at); err != nil {
			return err
		}
		switch {
		case at == landing.Offset():
			if _, err := landing.Write(piece); err != nil {
				return err
			}
		case !landing.Places():
			order = append(order, at)
		default:
			if taken, err := landing.Ahead(at, piece); err != nil || !taken {
				return fmt.Errorf("%d bytes at %d with %d landed: %v, %w", len(piece), at, landing.Offset(), taken, err)
			}
			ahead[at] = true
		}
		for next := landing.Offset(); ahead[next]; next = landing.Offset() {
			if err := landing.Adopt(min(size, from+missing-next)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pieces chooses sizes of pieces; small ones for small sections only, so that it ends.
func pieces(t *rapid.T) func(int64) int64 {
	small := rapid.Bool().Draw(t, "small pieces")
	return func(most int64) int64 {
		if small && most < 100 {
			return rapid.Int64Range(1, most).Draw(t, "piece")
		}
		return rapid.Int64Range(max(1, most/4), most).Draw(t, "piece")
	}
}
