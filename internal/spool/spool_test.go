package spool_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/spool"
)

const segment = 64 << 10

// write appends bytes at an offset, over however many segments.
func write(tb testing.TB, s *spool.Spool, offset uint64, content []byte) {
	tb.Helper()
	for len(content) > 0 {
		file, at, room, err := s.Section(offset)
		if err != nil {
			tb.Fatal(err)
		}
		n := min(room, uint64(len(content)))
		if _, err := file.WriteAt(content[:n], int64(at)); err != nil {
			tb.Fatal(err)
		}
		offset, content = offset+n, content[n:]
	}
}

func read(s *spool.Spool, offset, length uint64) ([]byte, error) {
	var content []byte
	for uint64(len(content)) < length {
		file, at, most, err := s.At(offset)
		if err != nil {
			return nil, err
		}
		part := make([]byte, min(most, length-uint64(len(content))))
		if _, err := file.ReadAt(part, int64(at)); err != nil {
			return nil, err
		}
		content, offset = append(content, part...), offset+uint64(len(part))
	}
	return content, nil
}

func random(size int) []byte {
	content := make([]byte, size)
	rand.NewChaCha8([32]byte{3}).Read(content)
	return content
}

// What was written after the end is cut off and takes no more room; what is before it stays.
func TestCutKeepsWhatIsBefore(t *testing.T) {
	content := random(4 * segment)
	for _, from := range []uint64{0, 1, segment - 1, segment, segment + 5000, 4 * segment, 5 * segment} {
		s := spool.New(t.TempDir(), segment)
		write(t, s, 0, content)
		if err := s.Cut(from); err != nil {
			t.Fatal(err)
		}
		length := min(from, 4*segment)
		if got, err := read(s, 0, length); err != nil || !bytes.Equal(got, content[:length]) {
			t.Errorf("cut at %d: what was before is not there: %v", from, err)
		}
		if got, err := read(s, from, 1); err == nil {
			t.Errorf("cut at %d: what was there can be read: %v", from, got)
		}
		write(t, s, length, content[length:])
		if got, err := read(s, 0, 4*segment); err != nil || !bytes.Equal(got, content) {
			t.Errorf("cut at %d: what was written anew is not there: %v", from, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A run that begins far away, such as the middle of a stream, is given back as fast as one that begins at zero.
func TestReleaseTakesAsLongAsThereIsSomething(t *testing.T) {
	const far = 1 << 62
	s := spool.New(t.TempDir(), segment)
	write(t, s, far, random(3*segment))
	released := make(chan error, 1)
	go func() { released <- s.Release(far + 2*segment) }()
	select {
	case err := <-released:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("what is given back is looked for where there was nothing")
	}
	if _, err := read(s, far, 1); err == nil {
		t.Error("what was given back can be read")
	}
	if got, err := read(s, far+2*segment, segment); err != nil || !bytes.Equal(got, random(3 * segment)[2*segment:]) {
		t.Errorf("what was kept is not there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsKeptCanBeRead(t *testing.T) {
	whole := random(20 * segment)
	rapid.Check(t, func(rt *rapid.T) {
		s := spool.New(t.TempDir(), segment)
		defer s.Close()
		from := rapid.Uint64Range(0, 5*segment).Draw(rt, "from")
		arrived, released := from, from
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				n := min(rapid.Uint64Range(1, 2*segment).Draw(rt, "bytes"), uint64(len(whole))-arrived)
				write(t, s, arrived, whole[arrived:arrived+n])
				arrived += n
			case 1:
				released = rapid.Uint64Range(released, arrived).Draw(rt, "release")
				if err := s.Release(released); err != nil {
					rt.Fatal(err)
				}
			case 2:
				at := rapid.Uint64Range(released, arrived).Draw(rt, "at")
				got, err := read(s, at, arrived-at)
				if err != nil || !bytes.Equal(got, whole[at:arrived]) {
					rt.Fatalf("read [%d, %d): %d bytes (%v), the right ones: %t", at, arrived, len(got), err, bytes.Equal(got, whole[at:arrived]))
				}
			}
		}
	})
}

func TestReleasedRoomIsFree(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount tmpfs (needs root): %v", err)
		}
		t.Skipf("mount tmpfs (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := spool.New(dir, segment)
	defer s.Close()
	content := random(segment)
	for i := range uint64(100) {
		write(t, s, i*segment, content)
		if err := s.Release(i * segment); err != nil {
			t.Fatal(err)
		}
	}
	file, _, _, err := s.Section(200 * segment)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(random(2 << 20)); !noroom.Is(err) {
		t.Errorf("2 MiB into 1 MiB: %v, want no room", err)
	}
}

// What sendfile has queued is sent unchanged, even if its room is given back meanwhile.
func TestQueuedBytesOutliveTheirRoom(t *testing.T) {
	const size = 8 * segment // fits into the buffers of a connection
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	content := random(size)
	s := spool.New("/dev/shm", segment)
	defer s.Close()
	write(t, s, 0, content)
	for offset := uint64(0); offset < size; offset += segment {
		file, at, most, err := s.At(offset)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(int64(at), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(server, io.LimitReader(file, int64(most))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(size - segment/2); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, content) {
		t.Errorf("other bytes came (%v)", err)
	}
}

// An agent whose cache directory is removed under it goes on.
func TestDirectoryThatIsRemovedIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := spool.New(dir, segment)
	defer s.Close()
	content := random(2 * segment)
	write(t, s, 0, content[:segment])
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write(t, s, segment, content[segment:])
	if got, err := read(s, 0, 2*segment); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, the right ones: %t, %v", len(got), bytes.Equal(got, content), err)
	}
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	s := spool.New(t.TempDir(), segment)
	defer s.Close()
	write(t, s, 0, random(3*segment))
	if err := s.Release(2 * segment); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.At(segment); err == nil {
		t.Error("released bytes can be read")
	}
	if entries, err := os.ReadDir(t.TempDir()); err != nil || len(entries) > 0 {
		t.Errorf("%d files have names (%v)", len(entries), err)
	}
}
