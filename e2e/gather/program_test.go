package gather_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// wantReason makes sure that an error has a reason, for programs.
func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var known *sdk.Error
	if !errors.As(err, &known) || known.Reason != reason {
		t.Errorf("%v, want the reason %s", err, reason)
	}
}

// soon is how long something may take that should take no time.
const soon = 10 * time.Second

// wantSoon returns what comes, and fails if that takes longer than soon.
func wantSoon[T any](t *testing.T, what string, from <-chan T) (one T) {
	t.Helper()
	select {
	case one = <-from:
	case <-time.After(soon):
		t.Fatalf("not within %v: %s", soon, what)
	}
	return one
}

// Closing a client ends what it uploads: a stream that goes on, a file in progress, and a tree.
func TestClosedClientEndsItsUploads(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 1MB}")
	file, _ := s.file("tree/large", 1, 64<<20)
	s.file("tree/larger", 2, 65<<20)
	from, to := io.Pipe()
	defer from.Close() // so that nobody goes on writing to it
	go to.Write(make([]byte, 1<<30))
	for what, upload := range map[string]func(*gather.Client) error{
		"stream": func(c *gather.Client) error {
			_, err := c.UploadStream(t.Context(), func(uint64) (io.Reader, error) { return from, nil }, gather.StreamOptions{Path: "in"})
			return err
		},
		"file": func(c *gather.Client) error {
			_, err := c.Upload(t.Context(), file, gather.FileOptions{})
			return err
		},
		"tree": func(c *gather.Client) error {
			return c.UploadTree(t.Context(), s.place("tree"), gather.FileOptions{}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			client, ended := s.client(what), make(chan error, 1)
			go func() { ended <- upload(client) }()
			s.await("some has come", func() bool { return s.status(what).GetReceivedBytes() > 100_000 })
			s.must(client.Close())
			wantReason(t, wantSoon(t, "the upload ends", ended), "CLOSED")
			wantReason(t, upload(client), "CLOSED")
		})
	}
}

// Uploads beyond the number that a gatherer lets one client have open wait for their turn.
func TestUploadsWaitForTheirTurn(t *testing.T) {
	s := start(t)
	client, open, late := s.client("alice"), make(chan error), make(chan error)
	const most, more = 64, 16
	goOn := make(chan struct{})
	for i := range most {
		go func() {
			_, err := client.UploadStream(t.Context(), func(uint64) (io.Reader, error) {
				return io.MultiReader(strings.NewReader("begun"), endsWith(goOn)), nil
			}, gather.StreamOptions{Path: fmt.Sprint("open", i)})
			open <- err
		}()
	}
	s.await("as many are open as may be", func() bool { return s.status("alice").GetUploads() == most })
	for i := range more {
		name, _ := s.file(fmt.Sprint("late", i), uint64(i), 1000)
		go func() {
			_, err := client.Upload(t.Context(), name, gather.FileOptions{})
			late <- err
		}()
	}
	select {
	case err := <-late:
		t.Fatalf("one more has ended while all others were open: %v", err)
	case err := <-open:
		t.Fatalf("one that is open has ended: %v", err)
	case <-time.After(3 * time.Second):
	}
	if now := s.status("alice").GetUploads(); now != most {
		t.Errorf("%d are open, want %d", now, most)
	}
	close(goOn)
	for range most {
		s.must(<-open)
	}
	for range more {
		s.must(<-late)
	}
}

// endsWith is a source that has nothing, and ends when a channel is closed.
type endsWith <-chan struct{}

func (e endsWith) Read([]byte) (int, error) {
	<-e
	return 0, io.EOF
}

// What was read of a stream before its source failed gets to the gatherer, and the source's error is told.
func TestStreamWhoseSourceFails(t *testing.T) {
	s := start(t)
	content, failed := random(1, 100_000), errors.New("the sensor is gone")
	one, err := s.client("alice").UploadStream(t.Context(), func(uint64) (io.Reader, error) {
		return io.MultiReader(bytes.NewReader(content), iotest.ErrReader(failed)), nil
	}, gather.StreamOptions{Path: "in"})
	if !errors.Is(err, failed) || one.Bytes != uint64(len(content)) || !bytes.Equal(s.stored("alice", "in"), content) {
		t.Errorf("%v, %+v, and %d bytes are there; want the source's error and %d bytes", err, one, len(s.stored("alice", "in")), len(content))
	}
}

// The last progress of an upload says how it ended, and that it has.
func TestLastProgressIsOfTheEnd(t *testing.T) {
	s := start(t)
	client := s.client("alice")
	var told []gather.Progress
	progress := func(p gather.Progress) { told = append(told, p) }
	wantLast := func(what string, want gather.Progress) {
		t.Helper()
		last := told[len(told)-1]
		got := gather.Progress{Path: last.Path, Files: last.Files, FilesDone: last.FilesDone, Sent: last.Sent, Length: last.Length, Stored: last.Stored, Ended: last.Ended}
		for _, before := range told[:len(told)-1] {
			if before.Ended {
				t.Errorf("%s: an end is told before the last", what)
			}
		}
		if told = nil; got != want {
			t.Errorf("%s: the last is %+v, want %+v", what, got, want)
		}
	}
	name, content := s.file("tree/f", 1, 300<<10)
	for i := range 30 {
		s.file(fmt.Sprintf("tree/small/%d", i), uint64(i), 1000)
	}
	for _, what := range []string{"sent", "there already"} {
		_, err := client.Upload(t.Context(), name, gather.FileOptions{Progress: progress})
		s.must(err)
		wantLast("a file, "+what, gather.Progress{Path: "f", Sent: 300 << 10, Length: 300 << 10, Ended: true})
		s.must(client.UploadTree(t.Context(), s.place("tree"), gather.FileOptions{Progress: progress}, nil))
		wantLast("a tree, "+what, gather.Progress{Path: "tree", Files: 31, FilesDone: 31, Sent: 300<<10 + 30_000, Length: 300<<10 + 30_000, Ended: true})
	}
	_, err := client.UploadStream(t.Context(), func(uint64) (io.Reader, error) { return bytes.NewReader(content), nil }, gather.StreamOptions{Path: "in", Progress: progress})
	s.must(err)
	wantLast("a stream", gather.Progress{Path: "in", Sent: 300 << 10, Length: 300 << 10, Stored: 300 << 10, Ended: true})
}
