package roster_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a roster at work.
type fixture struct {
	*testing.T
	*roster.Roster
	free   atomic.Uint64 // bytes of the disk
	policy *roster.Agreed
	ends   func() // the roster ends, at the test's end at the latest
}

// start runs a roster until the test ends. change, if it is set, changes what it is made of.
func start(t *testing.T, now policy.Policy, change func(*roster.Env)) *fixture {
	t.Helper()
	dir := memory(t)
	agreed, err := roster.OpenPolicy(slog.New(slog.DiscardHandler), filepath.Join(t.TempDir(), "policy.yaml"), now)
	f := &fixture{T: t, policy: agreed}
	f.must(err)
	f.free.Store(1 << 30)
	env := roster.Env{
		Log: slog.New(slog.DiscardHandler), Dir: dir, Policy: agreed, Grace: time.Minute, Reserve: 1 << 20,
		Free: func(string) (uint64, error) { return f.free.Load(), nil },
	}
	if change != nil {
		change(&env)
	}
	f.Roster, err = roster.New(env)
	f.must(err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Roster.Run(ctx) }) // it ends with ctx
	f.ends = func() {
		stop()
		running.Wait()
	}
	t.Cleanup(f.ends)
	return f
}

// memory returns a directory in memory: how busy the disk is makes no difference.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "groupcast-roster-") //nolint:usetesting // the test framework chooses the disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func member(name string) identity.ID { return identity.ID{Role: identity.Member, Name: name} }

var operator = identity.ID{Role: identity.Operator, Name: "admin"}

func (f *fixture) attach(name string) *roster.Session {
	f.Helper()
	session, err := f.Attach(name, nil, identity.Peer{ID: member(name)}, roster.Process{})
	f.must(err)
	return session
}

func (f *fixture) open(session *roster.Session, spec sink.Spec) roster.Opened {
	f.Helper()
	opened, err := f.Open(f.Context(), session.ID, session.Peer, spec, false)
	f.must(err)
	if opened.Upload == nil {
		f.Fatalf("%s is there already", spec.Path)
	}
	return opened
}

func (f *fixture) finish(session *roster.Session, opened roster.Opened, content []byte) (string, error) {
	return f.Finish(f.Context(), session.ID, session.Peer, opened.Upload.ID, uint64(len(content)), rootOf(content))
}

func rootOf(content []byte) object.Root {
	var hash digest.Hash
	_, _ = hash.Write(content) // it never fails
	return hash.Sum()
}

func file(path string, length int) sink.Spec {
	return sink.Spec{Path: path, Info: object.Info{Name: filepath.Base(path), Kind: object.File, Length: uint64(length), Mode: 0o600, Time: time.Unix(1e9, 0)}}
}

func stream(path string) sink.Spec {
	return sink.Spec{Path: path, Stream: true, Info: object.Info{Name: filepath.Base(path), Kind: object.File}}
}
