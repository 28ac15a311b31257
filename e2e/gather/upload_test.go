package gather_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/testdisk"
)

// Files, a tree and standard input arrive unchanged, below their client's name; the command runs
// for every file; what is already there is not sent again.
func TestUploads(t *testing.T) {
	s := start(t, "--exec=/bin/sh,-c,echo \"$GROUPCAST_CLIENT $GROUPCAST_PATH $1\" >> \""+t.TempDir()+"/ran\",sh")
	ran := strings.TrimSuffix(strings.SplitN(s.flags[0], ">> \"", 2)[1], "\",sh")
	_, large := s.file("tree/large", 1, 40<<20)
	_, small := s.file("tree/a/b/small", 2, 777)
	_, empty := s.file("tree/empty", 3, 0)
	s.must(os.Chmod(s.place("tree/a/b/small"), 0o750))
	s.must(os.MkdirAll(s.place("tree/none/deep"), 0o700))
	if p := s.upload("alice", s.place("tree")); p.status() != 0 {
		t.Fatal(p.said.String())
	}
	for path, content := range map[string][]byte{"tree/large": large, "tree/a/b/small": small, "tree/empty": empty} {
		s.wantFile("alice", path, content)
	}
	if info, err := os.Stat(filepath.Join(s.store, "alice/tree/a/b/small")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v %v, want its mode to be 0750", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Join(s.store, "alice/tree/none/deep")); err != nil || len(left) > 0 {
		t.Errorf("the empty directory: %v, %v", left, err)
	}
	p := s.upload("alice", s.place("tree"))
	if said := p.said.String(); p.status() != 0 || strings.Count(p.said.String(), "was there already") != 3 {
		t.Errorf("uploaded again: %s", said)
	}
	s.must(os.WriteFile(s.place("tree/a/b/small"), random(9, 777), 0o600)) // of the same length
	if p := s.upload("alice", s.place("tree/a/b/small"), "--name", "tree/a/b/small"); p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("alice", "tree/a/b/small", random(9, 777))

	stream := s.command("upload", "-", "--name", "logs/in", "--to", s.grpc, "--as", "bob")
	stream.Stdin = bytes.NewReader(large)
	if said, err := stream.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if got := s.stored("bob", "logs/in"); !bytes.Equal(got, large) {
		t.Errorf("of the stream there are %d bytes, or other ones", len(got))
	}
	s.await("the command has run four times", func() bool {
		text, _ := os.ReadFile(ran) // it may not be there yet
		return strings.Count(string(text), "\n") == 4
	})
	text, err := os.ReadFile(ran)
	s.must(err)
	if want := fmt.Sprintf("alice tree/large %s/alice/tree/large\n", s.store); !strings.Contains(string(text), want) {
		t.Errorf("the command has said %s, want %s among it", text, want)
	}
}

// A file that is followed is uploaded as it grows, also beyond a rotation, which gives its name to another.
func TestFollowOverRotation(t *testing.T) {
	s := start(t)
	name, content := s.file("log", 1, 100_000)
	p := s.upload("alice", name, "--follow")
	arrive := func() {
		t.Helper()
		s.await("all that was written has come", func() bool { return bytes.Equal(s.stored("alice", "log"), content) })
	}
	write := func(seed uint64) {
		t.Helper()
		more := random(seed, 50_000)
		to, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		s.must(err)
		_, err = to.Write(more)
		s.must(err)
		s.must(to.Close())
		content = append(content, more...)
	}
	arrive()
	write(2)
	arrive()
	for seed := range uint64(3) {
		s.must(os.Rename(name, name+".1"))
		write(10 + seed)
		arrive()
	}
	if status := p.end(); status != 0 {
		t.Errorf("exit status %d: %s", status, p.said.String())
	}
	arrive()
}

// If a file changes while it is uploaded, its upload ends and says so.
func TestChangedFileEndsItsUpload(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 4MB}")
	for what, change := range map[string]func(name string) error{
		"appended": func(name string) error {
			to, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			s.must(err)
			defer to.Close()
			_, err = to.WriteString("more")
			return err
		},
		"truncated": func(name string) error { return os.Truncate(name, 20<<20) },
		"overwritten": func(name string) error {
			to, err := os.OpenFile(name, os.O_WRONLY, 0)
			s.must(err)
			defer to.Close()
			_, err = to.WriteAt([]byte{0}, 3)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			name, _ := s.file(what, 1, 24<<20)
			p := s.upload(what, name)
			s.await("some has come", func() bool { return s.status(what).GetReceivedBytes() > 1<<20 })
			s.must(change(name))
			if status := p.status(); status != 1 || !strings.Contains(p.said.String(), what+" changed while it was uploaded") {
				t.Errorf("exit status %d: %s", status, p.said.String())
			}
			if _, err := os.Stat(filepath.Join(s.store, what, what)); err == nil {
				t.Error("it has appeared at the gatherer")
			}
		})
	}
}

// A file that is removed, or replaced by another, is uploaded as it was when it was opened.
func TestReplacedFileIsUploadedAsItWas(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 8MB}")
	other, _ := s.file("other", 2, 1<<20)
	for what, change := range map[string]func(name string) error{
		"replaced": func(name string) error { return os.Rename(other, name) },
		"removed":  os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			name, content := s.file(what, 1, 16<<20)
			p := s.upload(what, name)
			s.await("some has come", func() bool { return s.status(what).GetReceivedBytes() > 1<<20 })
			s.must(change(name))
			if status := p.status(); status != 0 {
				t.Errorf("exit status %d: %s", status, p.said.String())
			}
			there, err := os.ReadFile(filepath.Join(s.store, what, what))
			if err != nil || !bytes.Equal(there, content) {
				t.Errorf("%d bytes are there, other than those that were sent: %v", len(there), err)
			}
		})
	}
}

// A stream that is much larger than the client's disk, which keeps it, waits for the gatherer, and arrives whole.
func TestStreamsWaitForRoom(t *testing.T) {
	s := start(t)
	_, content := s.file("content", 9, 4<<20)
	command := s.command("upload", "-", "--to", s.grpc, "--as", "alice", "--name", "log")
	command.Env = append(command.Env, "TMPDIR="+testdisk.Memory(t, "size=512k"))
	command.Stdin = bytes.NewReader(content)
	if p := s.begin(command); p.status() != 0 {
		t.Error(p.said.String())
	}
	if got := s.stored("alice", "log"); !bytes.Equal(got, content) {
		t.Errorf("there are %d bytes, or other ones, want %d", len(got), len(content))
	}
}
