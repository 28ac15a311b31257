package gather_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// All that cannot be uploaded of a tree is named before anything is sent; what a pull has not received
// whole is none of it.
func TestTreeIsSurveyedFirst(t *testing.T) {
	s := start(t)
	_, content := s.file("tree/a", 1, 1000)
	s.file("tree/.groupcast-partial/x/data", 2, 10)
	s.must(os.Symlink("a", s.place("tree/link")))
	s.must(syscall.Mkfifo(s.place("tree/pipe"), 0o600))
	s.must(os.MkdirAll(s.place("tree/z/n\xffo"), 0o700))
	p := s.upload("alice", s.place("tree"))
	if status := p.status(); status != 2 {
		t.Errorf("exit status %d", status)
	}
	for _, problem := range []string{"tree/link", "it is a symbolic link", "tree/pipe", "it is a named pipe", `n\xffo`, "is not UTF-8"} {
		if !strings.Contains(p.said.String(), problem) {
			t.Errorf("it says %s, want %q in it", p.said.String(), problem)
		}
	}
	if _, err := os.Stat(filepath.Join(s.store, "alice/tree/a")); err == nil {
		t.Error("a file was uploaded all the same")
	}
	for _, name := range []string{"link", "pipe", "z"} {
		s.must(os.RemoveAll(s.place("tree/" + name)))
	}
	if p := s.upload("alice", s.place("tree")); p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("alice", "tree/a", content)

	s.must(os.Remove(s.place("tree/a")))
	if p := s.upload("alice", s.place("tree")); p.status() != 0 || !strings.Contains(p.said.String(), "nothing to upload in "+s.place("tree")) {
		t.Errorf("an empty directory: %s", p.said.String())
	}
	if p := s.upload("alice", s.place("tree"), "--follow"); p.status() != 2 || !strings.Contains(p.said.String(), "is a directory") {
		t.Errorf("a directory that is followed: %s", p.said.String())
	}
}

// A file that changes keeps none after it from being uploaded; that some are missing is told.
func TestTreeGoesOnAfterAFileThatChanges(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 4MB}")
	first, _ := s.file("tree/a", 1, 24<<20)
	_, content := s.file("tree/b", 2, 1000)
	p := s.upload("alice", s.place("tree"))
	s.await("some has come", func() bool { return s.status("alice").Received > 1<<20 })
	s.must(os.Truncate(first, 100))
	if status := p.status(); status != 3 || !strings.Contains(p.said.String(), "tree/a changed while it was uploaded") {
		t.Errorf("exit status %d: %s", status, p.said.String())
	}
	s.wantFile("alice", "tree/b", content)

	s.must(os.Remove(s.place("tree/b")))
	s.must(os.Truncate(first, 24<<20))
	client := s.client("bob")
	ended := make(chan error, 1)
	go func() { ended <- client.UploadTree(t.Context(), s.place("tree"), gather.FileOptions{}, nil) }()
	s.await("some has come", func() bool { return s.status("bob").Received > 1<<20 })
	s.must(os.Truncate(first, 100))
	var failed *sdk.Error
	if err := <-ended; !errors.As(err, &failed) || failed.Reason != "SOURCE_CHANGED" || failed.Code != sdk.Conflict {
		t.Errorf("where none is uploaded: %v", err)
	}
}
