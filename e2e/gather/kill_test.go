package gather_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk/gather"
)

// C66: the gatherer and its client are killed again and again during a stream. It goes on at the
// committed offset: nothing is doubled, and nothing is missing.
func TestC66KillsOfBothEnds(t *testing.T) {
	const kills, seed = 8, 66
	s := start(t)
	name, content := s.file("log", 1, 0)
	to, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	s.must(err)
	defer to.Close()
	chance := rand.New(rand.NewPCG(seed, 0))
	p := s.upload("alice", name, "--follow")
	for i := range kills {
		more := random(uint64(100+i), 4<<20)
		_, err := to.Write(more)
		s.must(err)
		content = append(content, more...)
		pause(time.Duration(chance.IntN(400)) * time.Millisecond)
		if got := s.stored("alice", "log"); !bytes.HasPrefix(content, got[:min(len(got), len(content))]) {
			t.Fatalf("before kill %d other bytes are there", i)
		}
		if chance.IntN(2) == 0 {
			s.gatherer.kill()
			s.startGatherer()
		} else {
			p.kill()
			p = s.upload("alice", name, "--follow")
		}
	}
	s.await("all has come", func() bool { return len(s.stored("alice", "log")) >= len(content) })
	if got := s.stored("alice", "log"); !bytes.Equal(got, content) {
		t.Errorf("%d bytes are there, or other ones, want %d", len(got), len(content))
	}
	s.await("the client is back", func() bool { return s.status("alice").GetAttached() }) // otherwise it would end without the gatherer
	if status := p.end(); status != 0 {
		t.Errorf("exit status %d: %s", status, p.said.String())
	}
	if got := s.stored("alice", "log"); !bytes.Equal(got, content) {
		t.Errorf("in the end there are %d bytes, or other ones, want %d", len(got), len(content))
	}
}

// A file goes on from where it was when the gatherer comes back, as the same upload.
func TestFileGoesOnWhenTheGathererComesBack(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 12MB}")
	name, content := s.file("model", 5, 48<<20)
	p := s.upload("alice", name)
	s.await("some has come", func() bool { return s.status("alice").GetReceivedBytes() > 8<<20 })
	if status := s.gatherer.end(); status != 0 {
		t.Errorf("the gatherer ends with status %d", status)
	}
	s.startGatherer()
	s.await("it goes on", func() bool { return s.status("alice").GetReceivedBytes() > 2<<20 })
	s.policy("{}")
	if p.status() != 0 {
		t.Fatal(p.said.String())
	}
	s.wantFile("alice", "model", content)
	s.gatherer.kill()
	s.startGatherer()
	if p := s.upload("alice", name); p.status() != 0 || !bytes.Contains([]byte(p.said.String()), []byte("was there already")) {
		t.Errorf("after a kill: %s", p.said.String())
	}
}

// A client that hangs is disconnected, and hinders nobody; when it goes on, so does its upload.
func TestClientHangs(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 12MB}")
	name, content := s.file("model", 6, 48<<20)
	stalled := s.upload("stalled", name)
	s.await("some has come", func() bool { return s.status("stalled").GetReceivedBytes() > 4<<20 })
	testprocess.Freeze(t, stalled.Process)
	s.await("its connections are gone", func() bool { return s.status("stalled").GetConnections() == 0 })
	s.policy("{}")
	if other := s.upload("other", name); other.status() != 0 {
		t.Error(other.said.String())
	}
	testprocess.Thaw(t, stalled.Process)
	if stalled.status() != 0 {
		t.Error(stalled.said.String())
	}
	s.wantFile("stalled", "model", content)
	s.wantFile("other", "model", content)
}

// The newer of two clients with one name fences the older, which ends and says why. The stream goes
// on after what was committed of the older's.
func TestTwoOfOneName(t *testing.T) {
	s := start(t)
	from, older := io.Pipe()
	defer older.Close()
	first := s.client("alice")
	ended := make(chan error, 1)
	go func() {
		_, err := first.UploadStream(t.Context(), func(uint64) (io.Reader, error) { return from, nil }, gather.StreamOptions{Path: "log"})
		ended <- err
	}()
	_, err := older.Write(bytes.Repeat([]byte("old."), 1000))
	s.must(err)
	s.await("the older's bytes are there", func() bool { return len(s.stored("alice", "log")) == 4000 })
	second := s.client("alice")
	done, err := second.UploadStream(t.Context(), func(offset uint64) (io.Reader, error) {
		if offset != 4000 {
			t.Errorf("it goes on at %d, want 4000", offset)
		}
		return bytes.NewReader(bytes.Repeat([]byte("new."), 1000)), nil
	}, gather.StreamOptions{Path: "log"})
	if err != nil || done.Bytes != 4000 {
		t.Errorf("the newer: %+v, %v", done, err)
	}
	go older.Write([]byte("too late"))
	if err := <-ended; !errors.Is(err, gather.ErrFenced) {
		t.Errorf("the older ends with %v, want %v", err, gather.ErrFenced)
	}
	want := append(bytes.Repeat([]byte("old."), 1000), bytes.Repeat([]byte("new."), 1000)...)
	if got := s.stored("alice", "log"); !bytes.Equal(got, want) {
		t.Errorf("there are %d bytes, or other ones, want %d", len(got), len(want))
	}
}

// line is a connection to the gatherer that can be cut.
type line struct {
	net.Dialer

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func (l *line) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.Dialer.DialContext(ctx, network, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.isCut {
		return nil, errors.Join(errors.New("the line is cut"), conn.Close())
	}
	l.conns = append(l.conns, conn)
	return conn, err
}

// set cuts the line, with everything that goes over it, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
	for _, conn := range l.conns {
		if conn != nil {
			conn.Close()
		}
	}
	l.conns = nil
}

// The older of two processes of one name is cut off while the newer comes, finishes and goes, and the gatherer is killed. When the
// older is back it is fenced all the same, and adds nothing to what the newer has left.
func TestTwoOfOneNameOverAKill(t *testing.T) {
	s := start(t)
	from, older := io.Pipe()
	defer older.Close()
	way := &line{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, err := gather.Open(t.Context(), s.access(), s.grpc, gather.Options{As: "alice", Dialer: way})
	s.must(err)
	defer first.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := first.UploadStream(ctx, func(uint64) (io.Reader, error) { return from, nil }, gather.StreamOptions{Path: "log"})
		ended <- err
	}()
	_, err = older.Write(bytes.Repeat([]byte("old."), 1000))
	s.must(err)
	s.await("the older's bytes are there", func() bool { return len(s.stored("alice", "log")) == 4000 })
	way.set(true)
	second := s.client("alice")
	_, err = second.UploadStream(t.Context(), func(uint64) (io.Reader, error) {
		return bytes.NewReader(bytes.Repeat([]byte("new."), 1000)), nil
	}, gather.StreamOptions{Path: "log"})
	s.must(err)
	s.must(second.Close())
	s.gatherer.kill()
	s.startGatherer()
	go func() {
		_, _ = older.Write([]byte("too late")) // nobody may be reading it
		_ = older.Close()                      // if it were to go on, it would be done then
	}()
	way.set(false)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "another process has attached") {
		t.Errorf("the older ends with %v", err)
	}
	if got := s.stored("alice", "log"); len(got) != 8000 || string(got[4000:4004]) != "new." {
		t.Errorf("there are %d bytes, want the older's 4000 and the newer's", len(got))
	}
}
