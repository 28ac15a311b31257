package gather_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// followed is a file that is followed, and everything written to it that should arrive.
type followed struct {
	*site
	name    string
	content []byte
	seed    uint64
	p       *process
}

// follow follows a file that has some content, and waits until that has arrived.
func follow(t *testing.T) *followed {
	t.Helper()
	f := &followed{site: start(t)}
	f.name = f.place("logs/app.log")
	f.must(os.MkdirAll(f.place("logs"), 0o700))
	f.write(100_000)
	f.run()
	f.arrive()
	return f
}

// run follows the file; it can be called again after the command was killed.
func (f *followed) run(flags ...string) {
	f.Helper()
	f.p = f.upload("alice", append([]string{f.name, "--follow"}, flags...)...)
}

// more returns bytes that did not occur before.
func (f *followed) more(size int) []byte {
	f.seed++
	return random(f.seed, size)
}

// add adds to a file without expecting that it arrives.
func (f *followed) add(name string, more []byte) {
	f.Helper()
	to, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	f.must(err)
	_, err = to.Write(more)
	f.must(err)
	f.must(to.Close())
}

// write adds to the file that has the name at the time.
func (f *followed) write(size int) {
	f.Helper()
	more := f.more(size)
	f.add(f.name, more)
	f.content = append(f.content, more...)
}

// rotate gives the file the next name, and so with earlier ones.
func (f *followed) rotate() {
	f.Helper()
	for i := 3; i > 0; i-- {
		older := fmt.Sprintf("%s.%d", f.name, i)
		if _, err := os.Stat(older); err == nil {
			f.must(os.Rename(older, fmt.Sprintf("%s.%d", f.name, i+1)))
		}
	}
	f.must(os.Rename(f.name, f.name+".1"))
}

// cut copies the file and truncates it, as copytruncate does.
func (f *followed) cut() {
	f.Helper()
	text, err := os.ReadFile(f.name)
	f.must(err)
	f.must(os.WriteFile(f.name+".1", text, 0o600))
	f.must(os.Truncate(f.name, 0))
}

// arrive waits until everything that was written is at the gatherer, and nothing else.
func (f *followed) arrive() {
	f.Helper()
	f.await("all that was written has come", func() bool { return len(f.stored("alice", "app.log")) >= len(f.content) })
	if got := f.stored("alice", "app.log"); !bytes.Equal(got, f.content) {
		f.Fatalf("%d bytes are there, or other ones, want the %d that were written: %s", len(got), len(f.content), f.p.said.String())
	}
}

// remembers waits until so many pieces are remembered.
func (f *followed) remembers(pieces int) {
	f.Helper()
	f.await(fmt.Sprintf("%d pieces are remembered", pieces), func() bool {
		kept, err := filepath.Glob(f.place(".local/state/groupcast/follow/*.json"))
		if err != nil || len(kept) != 1 {
			return false
		}
		text, _ := os.ReadFile(kept[0])
		return bytes.Count(text, []byte(`"began"`)) == pieces
	})
}

// wantSaid waits until the user was told something.
func (f *followed) wantSaid(text string) {
	f.Helper()
	f.await("it says "+text, func() bool { return strings.Contains(f.p.said.String(), text) })
}

// Files that are rotated while nobody follows them are read to their ends, one after another.
func TestFollowRestartsAfterRotations(t *testing.T) {
	for rotations := 1; rotations <= 2; rotations++ {
		t.Run(fmt.Sprint(rotations), func(t *testing.T) {
			f := follow(t)
			f.p.kill()
			f.write(30_000)
			for range rotations {
				f.rotate()
				f.write(70_000) // fewer bytes than the gatherer has
			}
			f.run()
			f.arrive()
			f.write(10_000)
			f.arrive()
			f.p.kill()
			f.write(200_000)
			f.run()
			f.arrive()
		})
	}
}

// A second file that has grown beyond the offset is read from its beginning all the same.
func TestFollowRestartsInTheSecondFile(t *testing.T) {
	f := follow(t)
	f.rotate()
	f.write(150_000)
	f.arrive()
	f.p.kill()
	f.write(150_000) // now it is longer than what the gatherer has
	f.run()
	f.arrive()
}

// The stream of a file that is truncated in place goes on from where it was.
func TestFollowRestartsAfterCopytruncate(t *testing.T) {
	f := follow(t)
	f.cut()
	f.write(40_000)
	f.arrive()
	f.p.kill()
	f.write(130_000)
	f.run()
	f.arrive()
	f.p.kill()
	f.cut()
	f.write(400_000) // more than the file had
	f.run()
	f.arrive()
	f.wantSaid("was cut while nobody followed it")
}

// What was read of an old file, and not committed when the command was killed, is read again from that file.
func TestFollowReadsTheOldFileAgain(t *testing.T) {
	f := follow(t)
	f.gatherer.kill()
	f.write(60_000)
	f.rotate()
	f.write(50_000)
	f.remembers(2)
	f.p.kill()
	f.startGatherer()
	f.run()
	f.arrive()
	f.write(10_000)
	f.arrive()
}

// If that file is gone, the command says so, and goes on with the next ones.
func TestFollowSaysWhatIsLost(t *testing.T) {
	f := follow(t)
	f.gatherer.end() // everything that came has been committed
	f.add(f.name, f.more(60_000))
	f.rotate()
	f.write(50_000)
	f.remembers(2)
	f.p.kill()
	f.must(os.Remove(f.name + ".1"))
	f.startGatherer()
	f.run()
	f.arrive()
	f.wantSaid("what was added to it after byte 100000 of the stream")
	f.p.kill()
	f.write(300_000) // the beginning of the second file has moved
	f.run()
	f.arrive()
}

// Without a book, a file that is too short is read from its beginning, and the command says so. It also says so if
// nothing can be remembered.
func TestFollowWithoutMemory(t *testing.T) {
	f := follow(t)
	f.p.kill()
	f.must(os.RemoveAll(f.place(".local")))
	f.must(os.WriteFile(f.place(".local"), nil, 0o600)) // so that no directory can be created there
	f.rotate()
	f.write(50_000)
	f.run()
	f.arrive()
	f.wantSaid("it is read from its beginning")
	f.wantSaid("name another file with --state")
	f.p.kill()
	f.rotate()
	f.write(10_000)
	f.run("--state", f.place("elsewhere"))
	f.arrive()
	f.p.kill()
	f.write(20_000)
	f.rotate()
	f.write(10)
	f.run("--state", f.place("elsewhere"))
	f.arrive()
}
