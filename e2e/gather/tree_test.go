package gather_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Everything in a tree that cannot be uploaded is named before anything is sent. Parts of objects that a pull has left
// do not count.
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
	if p := s.upload("alice", s.place("tree")); p.status() != 0 || !strings.Contains(p.said.String(), "no files to upload in "+s.place("tree")) {
		t.Errorf("an empty directory: %s", p.said.String())
	}
	if p := s.upload("alice", s.place("tree"), "--follow"); p.status() != 2 || !strings.Contains(p.said.String(), "is a directory") {
		t.Errorf("a directory that is followed: %s", p.said.String())
	}
}

// If a file changes, those after it are uploaded all the same, and the command says that some are missing.
func TestTreeGoesOnAfterAFileThatChanges(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 2MB}")
	first, _ := s.file("tree/a", 1, 24<<20)
	_, content := s.file("tree/b", 2, 1000)
	p := s.upload("alice", s.place("tree"))
	s.await("some has come", func() bool { return s.status("alice").GetReceivedBytes() > 1<<20 })
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
	s.await("some has come", func() bool { return s.status("bob").GetReceivedBytes() > 1<<20 })
	s.must(os.Truncate(first, 100))
	var failed *sdk.Error
	if err := <-ended; !errors.As(err, &failed) || failed.Reason != "SOURCE_CHANGED" || failed.Code != sdk.Conflict {
		t.Errorf("where none is uploaded: %v", err)
	}
}

// If a file is gone before its turn comes, the command says that it is missing.
func TestTreeTellsOfAFileThatIsGone(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 3MB}")
	for i := range 4 {
		s.file(fmt.Sprint("tree/", i), uint64(i), 3<<20)
	}
	p := s.upload("alice", s.place("tree"))
	s.await("some has come", func() bool { return s.status("alice").GetReceivedBytes() > 1<<20 })
	s.must(os.Rename(s.place("tree/3"), s.place("tree.3")))
	if status := p.status(); status != 3 || !strings.Contains(p.said.String(), "tree/3 was there and is gone") {
		t.Errorf("exit status %d: %s", status, p.said.String())
	}
}

// Small files go several at a time, even if the client may have only one connection; the progress is
// that of all together.
func TestFilesOfATreeGoTogether(t *testing.T) {
	s := start(t)
	contents := make(map[string][]byte)
	for i := range 40 {
		name := fmt.Sprint("tree/", i%3, "/", i)
		_, contents[name] = s.file(name, uint64(i+1), 300_000) // more than what goes in bundles
	}
	_, contents["tree/large"] = s.file("tree/large", 99, 3<<20)
	wantAll := func(client string) {
		t.Helper()
		for path, content := range contents {
			s.wantFile(client, path, content)
		}
	}
	s.policy("default: {max: 6MB}")
	client := s.client("alice")
	var last gather.Progress
	finished := 0
	ended := make(chan error, 1)
	options := gather.FileOptions{Progress: func(p gather.Progress) {
		if p.Path != "tree" || p.Files != 41 || p.Length != 12_000_000+3<<20 || p.Sent > p.Length || p.Sent < last.Sent || p.FilesDone != finished {
			t.Errorf("%+v after %+v and %d files", p, last, finished)
		}
		last = p
	}}
	go func() {
		ended <- client.UploadTree(t.Context(), s.place("tree"), options, func(gather.Uploaded) { finished++ })
	}()
	s.await("several go at a time", func() bool { return s.status("alice").GetUploads() >= 8 })
	s.must(<-ended)
	if finished != len(contents) {
		t.Errorf("%d files are finished, want %d", finished, len(contents))
	}
	wantAll("alice")
	if got := s.status("alice").GetReceivedBytes(); got < 12_000_000+3<<20 {
		t.Errorf("%d bytes are counted of short connections, and more were sent", got)
	}
	s.await("they are counted in the metrics, too", func() bool {
		return s.metric("groupcast_gatherer_received_bytes_total") >= 12_000_000+3<<20 && s.metric("groupcast_gatherer_upload_seconds_count") >= 41 &&
			s.metric("groupcast_gatherer_establishment_seconds_count") >= 41
	})

	s.policy("default: {maxConnections: 1}")
	if p := s.upload("bob", s.place("tree")); p.status() != 0 {
		t.Error(p.said.String())
	}
	wantAll("bob")
}

// If a client has as many bytes as it may, a tree ends with the file that was refused; the rest is not tried.
func TestTreeEndsWhereThereIsNoRoom(t *testing.T) {
	s := start(t)
	for i := range 60 {
		s.file(fmt.Sprintf("tree/%02d", i), uint64(i+1), 100_000)
	}
	s.policy("default: {maxStored: 1MB}")
	p := s.upload("alice", s.place("tree"))
	status, said := p.status(), p.said.String()
	if refused := strings.Count(said, "as many bytes here as it may"); status != 3 || refused == 0 || refused > 20 {
		t.Errorf("exit status %d, refused %d times: %s", status, refused, said)
	}
	if !strings.Contains(said, "/tree/") || !strings.Contains(said, "were not tried") {
		t.Errorf("it says neither which file nor that others were not tried: %s", said)
	}
	if fit := strings.Count(said, "alice/tree/"); fit == 0 || fit > 10 {
		t.Errorf("%d files of 100 kB fit into 1 MB: %s", fit, said)
	}
}

// If nothing can be written to the gatherer's store, a tree ends with one of its files, and the error says whose disk is the reason.
func TestTreeEndsWhereNothingCanBeWritten(t *testing.T) {
	s := start(t)
	for i := range 40 {
		s.file(fmt.Sprintf("tree/%d", i), uint64(i), 1000)
	}
	s.file("tree/large", 1, 300<<10)
	testdisk.Mount(t, "none", "bind,ro", s.store, s.store)
	p := s.upload("alice", s.place("tree"))
	status, said := p.status(), p.said.String()
	if status != 1 || strings.Count(said, "nothing can be written to the gatherer's store: ") != 1 || !strings.Contains(said, "\n40 files more were not uploaded for that\n") {
		t.Errorf("exit status %d: %s", status, said)
	}
	if strings.Contains(said, s.store) {
		t.Errorf("it says where the store is: %s", said)
	}
}

// A directory that is named by dots is uploaded under its real name.
func TestTreeOfTheParent(t *testing.T) {
	s := start(t)
	_, content := s.file("tree/inner/a", 1, 1000)
	client := s.client("alice")
	t.Chdir(s.place("tree/inner"))
	s.must(client.UploadTree(t.Context(), "..", gather.FileOptions{}, nil))
	s.wantFile("alice", "tree/inner/a", content)
}

// If the connections break while a gatherer lets the files of a bundle appear, none of them is sent again, and the command for each runs
// once.
func TestBundleThatIsFinishedIsNotSentAgain(t *testing.T) {
	const files = 900
	s := start(t, "--exec=sh,-c,echo once >>\"$0.done\"")
	for i := range files {
		s.file(fmt.Sprintf("tree/%d", i), uint64(i), 100)
	}
	way := &line{}
	client, err := gather.Open(t.Context(), s.access(), s.grpc, gather.Options{As: "alice", Dialer: way})
	s.must(err)
	defer client.Close()
	ended := make(chan error, 1)
	go func() { ended <- client.UploadTree(t.Context(), s.place("tree"), gather.FileOptions{}, nil) }()
	s.await("the first files have appeared", func() bool {
		there, _ := filepath.Glob(filepath.Join(s.store, "alice/tree/*"))
		return len(there) > 0
	})
	way.set(true)
	way.set(false)
	s.must(<-ended)
	if finished := s.metric("groupcast_gatherer_upload_seconds_count"); finished != 1 {
		t.Errorf("%v uploads are finished, want one", finished)
	}
	s.await("the command has run for each", func() bool {
		done, _ := filepath.Glob(filepath.Join(s.store, "alice/tree/*.done"))
		return len(done) == files
	})
	for i := range files {
		text, err := os.ReadFile(filepath.Join(s.store, fmt.Sprintf("alice/tree/%d.done", i)))
		if s.must(err); string(text) != "once\n" {
			t.Fatalf("the command for %d has run more than once: %q", i, text)
		}
	}
}

// Small files come in a few uploads, and are what they would be if each came by itself. Those that are there are not sent
// again, and a gatherer that is killed meanwhile loses none.
func TestSmallFilesComeTogether(t *testing.T) {
	const files = 1500
	s := start(t, "--exec=sh,-c,echo \"$GROUPCAST_CLIENT/$GROUPCAST_PATH\" >>\"$0.done\"")
	contents := make(map[string][]byte)
	for i := range files {
		name := fmt.Sprintf("tree/%d/%d", i%7, i)
		_, contents[name] = s.file(name, uint64(i), i*37%6000)
	}
	s.must(os.Chmod(s.place("tree/3/3"), 0o751))
	client := s.client("alice")
	var uploaded []gather.Uploaded
	each := func(one gather.Uploaded) { uploaded = append(uploaded, one) }
	var last gather.Progress
	options := gather.FileOptions{Progress: func(p gather.Progress) {
		if p.Sent > p.Length || p.Sent < last.Sent || p.Files != files {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}}
	s.must(client.UploadTree(t.Context(), s.place("tree"), options, each))
	if finished := s.metric("groupcast_gatherer_upload_seconds_count"); finished > 10 {
		t.Errorf("%v uploads for %d small files", finished, files)
	}
	s.wantAll("alice", contents, uploaded)
	if info, err := os.Stat(filepath.Join(s.store, "alice/tree/3/3")); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("%v, %v: want its own mode", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.store, "alice/*")); err != nil || len(left) != 1 {
		t.Errorf("more than the tree is there: %v, %v", left, err)
	}
	s.await("the command has run for each", func() bool {
		done, _ := filepath.Glob(filepath.Join(s.store, "alice/tree/*/*.done"))
		return len(done) == files
	})

	_, contents["tree/0/0"] = s.file("tree/0/0", 999_999, 5000)
	uploaded = nil
	s.must(client.UploadTree(t.Context(), s.place("tree"), gather.FileOptions{}, each))
	there := 0
	for _, one := range uploaded {
		if one.There {
			there++
		}
	}
	if there != files-1 {
		t.Errorf("%d of %d files are told to be there", there, files-1)
	}
	s.wantAll("alice", contents, nil)

	s.policy("default: {max: 1MB}")
	ended := make(chan error, 1)
	go func() { ended <- s.client("bob").UploadTree(t.Context(), s.place("tree"), gather.FileOptions{}, nil) }()
	s.await("some has come", func() bool { return s.status("bob").GetReceivedBytes() > 1<<20 })
	s.gatherer.kill()
	s.startGatherer()
	s.must(<-ended)
	s.wantAll("bob", contents, nil)
}

// wantAll compares files and, if it was recorded, what was said of each.
func (s *site) wantAll(client string, contents map[string][]byte, uploaded []gather.Uploaded) {
	s.Helper()
	for path, content := range contents {
		s.wantFile(client, path, content)
	}
	told := make(map[string]uint64)
	for _, one := range uploaded {
		told[one.Path] = one.Bytes
	}
	for path, content := range contents {
		if bytes, is := told[client+"/"+path]; uploaded != nil && (!is || bytes != uint64(len(content))) {
			s.Errorf("%s: %d bytes were told (%v), want %d", path, bytes, is, len(content))
		}
	}
}
