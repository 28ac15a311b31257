package roster_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// run has a script be the command for finished files.
func run(script string) func(*roster.Env) {
	return func(env *roster.Env) { env.Exec = []string{"/bin/sh", "-c", script, "sh"} }
}

// await waits until something holds.
func (f *fixture) await(what string, holds func() bool) {
	f.Helper()
	ticker, late := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-late:
			f.Fatalf("not within a minute: %s", what)
		}
	}
}

// said returns the lines of a file.
func said(name string) []string {
	text, _ := os.ReadFile(name) // it may not be there yet
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// bring uploads a file.
func (f *fixture) bring(session *roster.Session, path string, content []byte) {
	f.Helper()
	opened := f.open(session, file(path, len(content)))
	f.must(opened.Upload.Came(content))
	if _, err := f.finish(session, opened, content); err != nil {
		f.Fatal(err)
	}
}

// The command runs once for each finished file, and is told where that is and whose; it does not run for streams. If one fails,
// that harms nobody.
func TestCommandRunsForFiles(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	f := start(t, policy.Policy{}, run(fmt.Sprintf(`echo "$GROUPCAST_CLIENT $GROUPCAST_PATH $1" >> %s; exit 3`, out)))
	session := f.attach("alice")
	f.bring(session, "a/b", []byte("content"))
	log := f.open(session, stream("log"))
	f.must(log.Upload.Came([]byte("log")))
	if _, err := f.finish(session, log, []byte("log")); err != nil {
		t.Fatal(err)
	}
	f.bring(session, "c", []byte("more"))
	f.await("the command has run twice", func() bool { return len(said(out)) == 2 })
	want := []string{"alice a/b " + filepath.Join(f.Dir, "alice/a/b"), "alice c " + filepath.Join(f.Dir, "alice/c")}
	for _, line := range want {
		if !strings.Contains(strings.Join(said(out), "\n")+"\n", line+"\n") {
			t.Errorf("%q, want %q among it", said(out), line)
		}
	}
}

// A command that cannot start for want of descriptors or processes is run once there are enough.
func TestCommandIsTriedAgainWhereItCannotStart(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	f := start(t, policy.Policy{}, run(fmt.Sprintf(`echo "$GROUPCAST_PATH" >> %s`, out)))
	f.ExecuteAfter(os.NewSyscallError("pipe2", syscall.EMFILE), &os.PathError{Op: "fork/exec", Path: "/bin/sh", Err: syscall.EAGAIN})
	f.bring(f.attach("alice"), "file", []byte("content"))
	f.await("it has run", func() bool { return slices.Equal(said(out), []string{"file"}) })
}

// Four commands run at once. Others wait, and uploads are finished all the same.
func TestCommandsAreBounded(t *testing.T) {
	dir := t.TempDir()
	begun, go_ := filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	f := start(t, policy.Policy{}, run(fmt.Sprintf(`echo "$GROUPCAST_PATH" >> %s; while [ ! -e %s ]; do sleep 0.02; done; echo "$GROUPCAST_PATH" >> %s.done`, begun, go_, begun)))
	session := f.attach("alice")
	for i := range 7 {
		f.bring(session, fmt.Sprintf("f%d", i), []byte("content"))
	}
	f.await("four run", func() bool { return len(said(begun)) == 4 })
	f.must(os.WriteFile(go_, nil, 0o600))
	f.await("all have run", func() bool { return len(said(begun+".done")) == 7 })
	if n := len(said(begun)); n != 7 {
		t.Errorf("%d have begun, want 7", n)
	}
}

// A gatherer that stops ends the commands that run, with what they have started, and begins none. The next one runs them.
func TestCommandsEndWithTheGatherer(t *testing.T) {
	dir := memory(t)
	begun := filepath.Join(t.TempDir(), "begun")
	agreed, err := roster.OpenPolicy(slog.New(slog.DiscardHandler), filepath.Join(t.TempDir(), "policy.yaml"), policy.Policy{})
	env := roster.Env{Log: slog.New(slog.DiscardHandler), Dir: dir, Policy: agreed, Grace: time.Minute}
	run("echo $$ >> " + begun + "; sleep 600 & echo $! >> " + begun + ".children; wait")(&env)
	f := &fixture{T: t, policy: agreed}
	f.must(err)
	f.Roster, err = roster.New(env)
	f.must(err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Roster.Run(ctx) }) // it ends with ctx
	session := f.attach("alice")
	for i := range 6 {
		f.bring(session, fmt.Sprintf("f%d", i), []byte("content"))
	}
	f.await("four run", func() bool { return len(said(begun)) == 4 && len(said(begun+".children")) == 4 })
	stop()
	running.Wait()
	if n := len(said(begun)); n != 4 {
		t.Errorf("%d have begun, want 4", n)
	}
	f.wantEnded(said(begun), said(begun+".children"))

	out := begun + ".again"
	run(`echo "$GROUPCAST_CLIENT $GROUPCAST_PATH $1" >> ` + out)(&env)
	f.must(os.Remove(filepath.Join(dir, "alice/f3")))
	for _, want := range []int{5, 0} { // for all except the one that is gone, and once
		f.Roster, err = roster.New(env)
		f.must(err)
		ctx, stop := context.WithCancel(t.Context())
		running.Go(func() { _ = f.Roster.Run(ctx) }) // it ends with ctx
		f.await("all others have run", func() bool { return len(said(out)) == want && !f.isDue() })
		stop()
		running.Wait()
		if want > 0 && !slices.Contains(said(out), "alice f5 "+filepath.Join(dir, "alice/f5")) {
			t.Errorf("%q, want that of f5 among it", said(out))
		}
		_ = os.Remove(out)
	}
}

// isDue reports whether a command that has not ended is noted.
func (f *fixture) isDue() bool {
	notes, err := os.ReadDir(filepath.Join(f.Dir, ".groupcast-commands"))
	return err == nil && len(notes) > 0
}

// wantEnded waits until all of some processes have ended.
func (f *fixture) wantEnded(processes ...[]string) {
	f.Helper()
	for _, one := range slices.Concat(processes...) {
		f.await(one+" has ended", func() bool {
			_, err := os.Readlink("/proc/" + one + "/exe") // a zombie has none
			return err != nil
		})
	}
}

// A command that takes too long is ended, with all that it has started, and makes way for others.
func TestCommandsThatTakeTooLong(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	f := start(t, policy.Policy{}, func(env *roster.Env) {
		run(`sleep 600 & echo $! >> ` + begun + `; echo $$ >> ` + begun + `; wait`)(env)
		env.ExecTime = 100 * time.Millisecond
	})
	session := f.attach("alice")
	for i := range 5 {
		f.bring(session, fmt.Sprintf("f%d", i), []byte("content"))
	}
	f.await("all have begun", func() bool { return len(said(begun)) == 10 })
	f.wantEnded(said(begun))
}

// What need not stay is removed, for each client by itself; and a client that waited for room of its own is asked for more.
func TestRetentionMakesRoom(t *testing.T) {
	f := start(t, policy.Policy{Default: policy.Share{MaxStored: 1_000_000}}, func(env *roster.Env) { env.Retention = sink.Retention{Bytes: 600_000} })
	alice, bob := f.attach("alice"), f.attach("bob")
	f.bring(alice, "a0", make([]byte, 500_000))
	f.bring(alice, "a1", make([]byte, 450_000))
	f.bring(bob, "b", make([]byte, 500_000))
	if _, err := f.Open(t.Context(), alice.ID, alice.Peer, file("a2", 400_000), false); err == nil {
		t.Error("there is more room than it may have")
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	f.must(f.Retain(over)) // it looks once
	for path, want := range map[string]bool{"alice/a0": false, "alice/a1": true, "bob/b": true} {
		if _, err := os.Stat(filepath.Join(f.Dir, path)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", path, err == nil, want)
		}
	}
	f.bring(alice, "a2", make([]byte, 400_000))
}

// What is in the store and is no client's stays: lost+found, and what has a name that a client could have.
func TestRetentionLeavesWhatIsNoClients(t *testing.T) {
	f := start(t, policy.Policy{}, func(env *roster.Env) { env.Retention = sink.Retention{Bytes: 1} })
	f.attach("alice")
	for _, dir := range []string{"lost+found", "processed", "alice"} {
		f.lay(dir + "/f")
	}
	if n := f.retained("alice/f"); n != 0 {
		t.Error("what a client has too much is there")
	}
	if n := f.retained("lost+found/f") + f.retained("processed/f"); n != 2 {
		t.Error("what is no client's is removed")
	}
}

// Who was a client is known over restarts. In a store without a register, all directories that can be clients' are.
func TestRetentionKnowsClientsOverRestarts(t *testing.T) {
	dir := memory(t)
	retention := func(env *roster.Env) { env.Dir, env.Retention = dir, sink.Retention{Bytes: 1} }
	f := start(t, policy.Policy{}, retention)
	f.attach("alice")
	f.ends()
	f = start(t, policy.Policy{}, retention)
	f.lay("alice/f")
	f.lay("processed/f")
	if alice, processed := f.retained("alice/f"), f.retained("processed/f"); alice != 0 || processed != 1 {
		t.Errorf("%d files of a client are there, and %d of another directory", alice, processed)
	}
	f.must(os.Remove(filepath.Join(dir, ".groupcast-clients")))
	for range 2 {
		f.ends()
		f = start(t, policy.Policy{}, retention)
		if n := f.retained("processed/f"); n != 0 {
			t.Errorf("%d files are there of what may be a client's", n)
		}
		f.lay("processed/f")
	}
}

// lay puts a file into the store.
func (f *fixture) lay(path string) {
	f.Helper()
	at := filepath.Join(f.Dir, path)
	f.must(os.MkdirAll(filepath.Dir(at), 0o700))
	f.must(os.WriteFile(at, []byte("content"), 0o600))
}

// Retention leaves files whose commands have not ended, however many there are. Once they have ended, it removes them.
func TestRetentionLeavesFilesToTheirCommands(t *testing.T) {
	dir := t.TempDir()
	out, go_ := filepath.Join(dir, "out"), filepath.Join(dir, "go")
	f := start(t, policy.Policy{}, func(env *roster.Env) {
		run(fmt.Sprintf(`while [ ! -e %s ]; do sleep 0.02; done; wc -c <"$1" >> %s`, go_, out))(env)
		env.Retention = sink.Retention{Bytes: 1}
	})
	session := f.attach("alice")
	const files = 6
	for i := range files {
		f.bring(session, fmt.Sprintf("f%d", i), []byte("content"))
	}
	there := func() int { return f.retained("alice/f*") }
	if n := there(); n != files {
		t.Errorf("%d of %d files are there, and the command has ended for none", n, files)
	}
	f.must(os.WriteFile(go_, nil, 0o600))
	f.await("the command has had all files", func() bool { return slices.Equal(said(out), slices.Repeat([]string{"7"}, files)) })
	f.await("all are gone", func() bool { return there() == 0 })
}

// retained removes what need not stay, and returns how many files there are.
func (f *fixture) retained(pattern string) int {
	f.Helper()
	over, stop := context.WithCancel(f.Context())
	stop()
	f.must(f.Retain(over)) // it looks once
	all, err := filepath.Glob(filepath.Join(f.Dir, pattern))
	f.must(err)
	return len(all)
}

// A ticket lets whoever opened an upload bring its bytes, and no other upload's, until it is opened again.
func TestTickets(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	session := f.attach("alice")
	one, other := f.open(session, file("a", 10)), f.open(session, file("b", 10))
	if !one.Permits(session.Peer) || !other.Permits(session.Peer) {
		t.Error("a ticket does not permit what it is for")
	}
	if one.Permits(member("bob")) || one.Permits(operator) {
		t.Error("a ticket permits somebody else")
	}
	for name, ticket := range map[string][]byte{"none": nil, "another's": other.Ticket, "shorter": one.Ticket[:31], "longer": append(one.Ticket[:32:32], 0)} {
		if (roster.Opened{Upload: one.Upload, Ticket: ticket}).Permits(session.Peer) {
			t.Errorf("%s: it permits", name)
		}
	}
	again := f.open(session, file("a", 10))
	if again.Upload != one.Upload || one.Permits(session.Peer) || !again.Permits(session.Peer) || !other.Permits(session.Peer) {
		t.Error("when it is opened again, the new ticket alone is to permit, and others' as before")
	}
}

// An upload whose commands wait is known to whoever asks, however many others are finished meanwhile: it would be sent again, and its
// commands would run twice. Then it is one of the last 4,096.
func TestUploadWhoseCommandsWaitIsKnown(t *testing.T) {
	if isKnown, known := roster.Remember(5000); !isKnown || known != 4096 {
		t.Errorf("known while it waits: %t; then %d are known", isKnown, known)
	}
}
