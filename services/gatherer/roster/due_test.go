package roster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// moreThanWait are more commands than run and wait at once.
const moreThanWait = 1100

// forGood has the command for finished files never end.
func forGood(env *roster.Env) { run("sleep 600")(env) }

// notes returns how many commands are noted that have not ended.
func (f *fixture) notes() int {
	notes, _ := os.ReadDir(filepath.Join(f.Dir, ".groupcast-commands")) // it may not be there yet
	return len(notes)
}

// bundle returns some small files as one upload, and its bytes.
func (f *fixture) bundle(files int) (spec sink.Spec, content []byte) {
	f.Helper()
	from, paths := memory(f.T), make([]string, files)
	for i := range paths {
		paths[i] = fmt.Sprintf("%05d", i)
		f.must(os.WriteFile(filepath.Join(from, paths[i]), []byte("content"), 0o600))
	}
	source, err := object.Some(from, "some", paths)
	f.must(err)
	defer source.Close()
	content = make([]byte, source.Info().Length)
	reader := source.NewReader()
	defer reader.Close()
	f.must(reader.ReadAt(content, 0))
	spec = file("a/bundle-1", len(content))
	spec.Bundle = true
	return spec, content
}

// That the command is due is noted for all files of a bundle at once, even for more than may wait for it: a kill forgets none.
func TestCommandsOfABundleAreNotedAtOnce(t *testing.T) {
	f := start(t, policy.Policy{}, forGood)
	session := f.attach("alice")
	spec, content := f.bundle(moreThanWait)
	opened := f.open(session, spec)
	f.must(opened.Upload.Came(content))
	var finishing sync.WaitGroup
	defer finishing.Wait()
	defer f.ends()
	finishing.Go(func() { _, _ = f.finish(session, opened, content) }) // it waits for the commands
	f.await("all are noted", func() bool { return f.notes() == moreThanWait })
}

// Files for which an earlier process has left commands stay until these have ended, however many there are and whatever looks first.
func TestRetentionLeavesFilesToCommandsThatAreLeft(t *testing.T) {
	f := start(t, policy.Policy{}, func(env *roster.Env) {
		forGood(env)
		env.Retention = sink.Retention{Bytes: 1}
		for _, dir := range []string{"alice", ".groupcast-commands"} {
			if err := os.Mkdir(filepath.Join(env.Dir, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for i := range moreThanWait {
			note := fmt.Appendf(nil, `{"client":"alice","path":"f%d"}`, i)
			for path, content := range map[string][]byte{fmt.Sprint("alice/f", i): []byte("content"), fmt.Sprint(".groupcast-commands/", i): note} {
				if err := os.WriteFile(filepath.Join(env.Dir, path), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	if n := f.retained("alice/f*"); n != moreThanWait {
		t.Errorf("%d files are there, want %d: the command has ended for none", n, moreThanWait)
	}
}
