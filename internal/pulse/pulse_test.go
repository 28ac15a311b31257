package pulse_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/testdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a disk whose calls are watched, and what happened to those that were left behind.
type disk struct {
	*pulse.Watch
	stands, answered, after int
	since                   time.Time
}

func newDisk(patience time.Duration) *disk {
	d := &disk{}
	d.Watch = &pulse.Watch{Log: slog.New(slog.DiscardHandler), Path: "/srv", Patience: patience, Left: func(_ pulse.Disk, _ string, since time.Time) func() {
		d.stands, d.since = d.stands+1, since
		return func() { d.answered++ }
	}}
	return d
}

func (d *disk) call(ctx context.Context, call func() error) error {
	return d.Await(ctx, "write", call, func() { d.after++ })
}

// A call that does not return is given up when nothing was heard of the disk for as long as it is waited for, and the next is not made.
// When it returns after all, what it had is done with.
func TestCallThatStandsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, answer, began := newDisk(time.Minute), make(chan struct{}), time.Now()
		err := d.call(t.Context(), func() error {
			<-answer
			return nil
		})
		if took := time.Since(began); !errors.Is(err, pulse.ErrStalled) || took < time.Minute || took > 62*time.Second || d.stands != 1 || !d.since.Equal(began) {
			t.Errorf("%v after %v, %d left behind since %v", err, took, d.stands, d.since.Sub(began))
		}
		if err := d.call(t.Context(), func() error { t.Error("another call"); return nil }); !errors.Is(err, pulse.ErrStalled) || !errors.Is(d.Err(), pulse.ErrStalled) {
			t.Error(err)
		}
		synctest.Wait()
		if d.after+d.answered != 0 {
			t.Error("it is done with before it returned")
		}
		close(answer)
		synctest.Wait()
		if d.after != 1 || d.answered != 1 {
			t.Errorf("it was done with %d times, and answered %d times", d.after, d.answered)
		}
	})
}

// However slow a disk is, it is waited for while it does anything. Its caller is held up all the same.
func TestSlowDiskIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(time.Minute)
		err := d.call(t.Context(), func() error {
			for range 100 {
				time.Sleep(55 * time.Second)
				d.Beat()
			}
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				d.Beat()
			}
			if !d.HoldsUp() {
				t.Error("it is not told that it holds up its caller")
			}
			return nil
		})
		if err != nil || d.stands != 0 {
			t.Error(err)
		}
	})
}

// A goroutine that makes calls now and then is waited for, however long it does something else, and however many calls there are; one that
// is left behind with a call that stands ends there when that returns.
func TestFollowedGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, answer, ended := newDisk(time.Minute), make(chan struct{}), false
		var began time.Time
		err := d.Follow(t.Context(), func(do pulse.Do) error {
			defer func() { ended = true }()
			time.Sleep(time.Hour)
			for i := range 100_000 {
				if err := do("write", func() error { time.Sleep(time.Millisecond); return nil }); err != nil || d.HoldsUp() {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			failed := errors.New("it fails")
			if err := do("write", func() error { time.Sleep(40 * time.Second); return failed }); !errors.Is(err, failed) {
				t.Error(err)
			}
			time.Sleep(40 * time.Second)
			if d.HoldsUp() {
				t.Error("a call that has returned holds up its caller")
			}
			began = time.Now()
			_ = do("write", func() error { <-answer; return nil })
			t.Error("a goroutine that is left behind goes on")
			return nil
		}, func() { d.after++ })
		if took := time.Since(began); !errors.Is(err, pulse.ErrStalled) || took < time.Minute || took > 62*time.Second || d.stands != 1 {
			t.Errorf("%v after %v, %d left behind", err, took, d.stands)
		}
		if ended || d.after+d.answered != 0 {
			t.Error("it is done with before it returned")
		}
		close(answer)
		synctest.Wait()
		if !ended || d.after != 1 || d.answered != 1 {
			t.Errorf("it was done with %d times, and answered %d times", d.after, d.answered)
		}
	})
}

// Nothing is run for a disk that was given up, and a goroutine that ends in time has its own error.
func TestFollowedGoroutineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, mine := newDisk(time.Minute), errors.New("mine")
		for range 2 {
			if err := d.Follow(t.Context(), func(pulse.Do) error { return mine }, func() { d.after++ }); !errors.Is(err, mine) {
				t.Error(err)
			}
		}
		if err := d.call(t.Context(), func() error { time.Sleep(time.Hour); return nil }); !errors.Is(err, pulse.ErrStalled) {
			t.Error(err)
		}
		if err := d.Follow(t.Context(), func(pulse.Do) error { t.Error("it runs"); return nil }, func() {}); !errors.Is(err, pulse.ErrStalled) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if d.after != 1 {
			t.Errorf("%d calls were done with that were left behind", d.after)
		}
	})
}

// A disk that does anything for others is waited for: a call may wait for what they write. That it stands is told.
func TestBusyDiskIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, answer, done := newDisk(time.Minute), make(chan struct{}), uint64(0)
		d.Count(func() uint64 {
			if d.HoldsUp() {
				done++
			}
			return done
		})
		time.AfterFunc(time.Hour, func() { close(answer) })
		err := d.call(t.Context(), func() error {
			<-answer
			if !d.HoldsUp() {
				t.Error("it is not told that the disk stands")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// What a disk has done is counted by its path; of what is no disk, or is not there, there is nothing.
func TestActivity(t *testing.T) {
	for _, path := range []string{"/proc/self", "/dev/null", "/dev/nothing", "relative", ""} {
		if done := pulse.DiskOf(path).Activity(); done != 0 {
			t.Errorf("%q has done %d", path, done)
		}
	}
	disk := testdisk.New(t, "16m")
	on := pulse.DiskOf(disk.Dir)
	before := on.Activity()
	file, err := os.Create(filepath.Join(disk.Dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(make([]byte, 1<<20))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	if after := on.Activity(); before == 0 || after <= before {
		t.Errorf("%d, and with a file %d", before, after)
	}
}

// What is on the same file system, or device, is on the same disk, by its name alone.
func TestDiskOf(t *testing.T) {
	loop := testdisk.Loop(t, filepath.Join(t.TempDir(), "disk"), 1<<20)
	link := filepath.Join("/dev", "groupcast-"+filepath.Base(loop))
	if err := os.Symlink(loop, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(link) })
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"/proc/self/status", "/proc/nothing", true},
		{"/proc", "/procedure", false},
		{loop, "/dev/disk/../" + filepath.Base(loop), true},
		{loop, link, true},
		{loop, "/dev/null", false},
		{"/dev/no", "/dev/nothing", false},
		{"relative", "relative/below", false},
	} {
		one, other := pulse.DiskOf(c.one), pulse.DiskOf(c.other)
		if same := one.ID() == other.ID(); same != c.same {
			t.Errorf("%s and %s are on one disk: %v (%v, %v)", c.one, c.other, same, one, other)
		}
	}
	if at := pulse.DiskOf("/proc/self/../nothing").At; at != "/proc" {
		t.Errorf("/proc is mounted at %s", at)
	}
}

// Each step of a path is told of before it is made, with the disk that it asks, and none is made that is not let.
func TestResolveTellsOfEachStep(t *testing.T) {
	disk, dir := testdisk.Memory(t, "size=1m"), t.TempDir()
	away := filepath.Join(disk, "away")
	for link, to := range map[string]string{"link": away, "chain": "link/../away", "nowhere": "nothing/at/all", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(away, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		real string
		err  error
	}{
		"link": {away, nil}, "chain": {away, nil}, "link/new/newer": {filepath.Join(away, "new", "newer"), os.ErrNotExist},
		"none/newer": {filepath.Join(dir, "none", "newer"), os.ErrNotExist}, "nowhere": {"", pulse.ErrDangling}, "loop": {"", unix.ELOOP},
	} {
		var last pulse.Disk
		real, err := pulse.Resolve(filepath.Join(dir, path), func(disk pulse.Disk) error {
			last = disk
			return nil
		})
		if real != want.real || !errors.Is(err, want.err) {
			t.Errorf("%s leads to %q, want %q: %v", path, real, want.real, err)
		}
		if real != "" && last.ID() != pulse.DiskOf(real).ID() {
			t.Errorf("%s: what was asked last is %v", path, last)
		}
		if found, wrong := filepath.EvalSymlinks(filepath.Join(dir, path)); err == nil && found != real || (wrong == nil) != (err == nil) {
			t.Errorf("%s leads to %s, and for others to %s: %v", path, real, found, wrong)
		}
	}
	no := errors.New("not there")
	_, err := pulse.Resolve(filepath.Join(dir, "link", "nothing"), func(on pulse.Disk) error {
		if on.At == disk {
			return no
		}
		return nil
	})
	if !errors.Is(err, no) {
		t.Error(err)
	}
}

// Without a patience a disk is waited for for ever, unless nobody asks any more.
func TestWhoDoesNotAskWaitsNoLonger(t *testing.T) {
	for name, patience := range map[string]time.Duration{"for ever": 0, "long": time.Hour, "short": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				d, answer, began := newDisk(patience), make(chan struct{}), time.Now()
				ended := make(chan error, 1)
				go func() {
					ended <- d.call(ctx, func() error {
						<-answer
						return nil
					})
				}()
				if patience != time.Second {
					time.Sleep(40 * time.Minute)
					if synctest.Wait(); len(ended) > 0 || !d.HoldsUp() {
						t.Error("it is not waited for")
					}
				}
				cancel()
				if err := <-ended; !errors.Is(err, pulse.ErrStalled) || time.Since(began) > 40*time.Minute+2*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				close(answer)
				synctest.Wait()
			})
		})
	}
}

// What a call returns is returned, and none is left behind.
func TestCallReturns(t *testing.T) {
	wrong := errors.New("wrong")
	d := newDisk(time.Minute)
	if err := errors.Join(d.call(t.Context(), func() error { return wrong })); !errors.Is(err, wrong) || d.Err() != nil || d.HoldsUp() {
		t.Error(err)
	}
}

// A sync goes piece by piece, of files of any length, and beats with each.
func TestSyncBeats(t *testing.T) {
	content := make([]byte, 40<<20+1)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	p := new(pulse.Pulse)
	if err := p.Sync(file, 0, uint64(len(content))); err != nil || p.Beats() != 7 {
		t.Errorf("%d beats, want one for each of 6 pieces, and for the sync: %v", p.Beats(), err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the file has other bytes: %v", err)
	}
	_, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := p.Flush(writer, 0, 64<<20); err != nil {
		t.Errorf("what cannot be written in pieces: %v", err)
	}
	if pulse.Of(t.Context()).Sync(file, 0, 1) != nil || pulse.Of(pulse.In(t.Context(), p)) != p {
		t.Error("no pulse is one that counts nothing")
	}
}
