package sim

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// Over no link more comes of a directory than what somebody behind it lacks.
func TestOnlyWhatMembersLackIsSent(t *testing.T) {
	const size, files = 8 << 20, 8
	for name, test := range map[string]struct {
		change func(w *world, member, it string)
		most   int // of the bytes on the sender's link
	}{
		"all have it but for one file": {
			change: func(w *world, _, it string) { w.must(os.Remove(filepath.Join(it, "d0", "f4"))) },
			most:   size/files + 256<<10,
		},
		"each lacks another file": {
			change: func(w *world, member, it string) {
				w.must(os.WriteFile(filepath.Join(it, "d1", map[string]string{"r1": "f1", "r2": "f3", "r3": "f7"}[member]), []byte("another"), 0o644))
			},
			most: 3*size/files + 512<<10,
		},
		"all have it at other paths": {
			change: func(w *world, _, it string) { w.must(os.Rename(filepath.Join(it, "d0"), filepath.Join(it, "before"))) },
			most:   256 << 10,
		},
		"all have it": {
			change: func(*world, string, string) {},
			most:   64 << 10,
		},
		"one has nothing": {
			change: func(w *world, member, it string) {
				if member == "r3" {
					w.must(os.RemoveAll(it))
				}
			},
			most: size + 64<<10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := overTwoAgents()
			s.receivers = []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}, {name: "r3", node: "a2"}}
			s.shape.Latency, s.shape.Rate = 5*time.Millisecond, 4<<20
			s.deliveries = []parcel{{name: "object-0", size: size, files: files, changes: true}}
			dir := scratch(t)
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, s, dir)
				defer w.say()
				defer w.operator.Close()
				defer w.stopAll()
				p := s.deliveries[0]
				path := w.write(p)
				for _, r := range s.receivers {
					it := filepath.Join(w.into(r.name), p.name)
					w.must(os.CopyFS(it, os.DirFS(path)))
					test.change(w, r.name, it)
				}
				w.populate()
				w.network.ShapeAll(s.shape)
				out, err := w.begins(t.Context(), p, path)
				w.must(err)
				ended, err := out.Wait(t.Context())
				w.must(err)
				w.checkOutcome(p, ended)
				if ended.State != sdk.DeliveryComplete {
					t.Fatalf("it is %s: %+v", ended.State, ended.Receipts)
				}
				for _, link := range ended.Measurements.Links {
					if link.From == senderHost && link.Bytes > uint64(test.most) {
						t.Errorf("%d bytes of %d were sent, want at most %d", link.Bytes, ended.Length, test.most)
					}
				}
				var elapsed []string
				for _, receipt := range ended.Receipts {
					elapsed = append(elapsed, fmt.Sprintf("%s %v", receipt.Member, receipt.Elapsed))
				}
				t.Log(ended.Measurements.Links, elapsed)
			})
		})
	}
}

// plantEarlier gives members an earlier version of what is sent, or none: all the same, or each its own.
func (w *world) plantEarlier(p parcel) {
	path := w.write(p)
	drawn := source(w.seed, drawsChanges+1000)
	alike := drawn.IntN(2) == 0
	for i, r := range w.receivers {
		random := source(w.seed, drawsChanges+2000)
		if !alike {
			random = source(w.seed, uint64(drawsChanges+2001+i))
		}
		if random.IntN(5) == 0 {
			continue
		}
		it := filepath.Join(w.into(r.name), p.name)
		w.must(os.CopyFS(it, os.DirFS(path)))
		w.must(filepath.WalkDir(it, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				err = alter(path, random)
			}
			return err
		}))
		there, err := os.Lstat(it)
		w.must(err)
		w.planted[it] = there
	}
}

// alter may remove a file, write into it, rename it, or add another beside it.
func alter(path string, random *rand.Rand) error {
	switch random.IntN(6) {
	case 0:
		return os.Remove(path)
	case 1:
		return os.WriteFile(path+"-other", []byte("other"), 0o600)
	case 2:
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		content[random.IntN(len(content))]++
		return os.WriteFile(path, slices.Clone(content), 0o600)
	case 3:
		return os.Rename(path, path+"-renamed")
	}
	return nil
}
