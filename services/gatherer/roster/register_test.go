package roster_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// registered is a roster that is started again and again over one directory.
type registered struct {
	*fixture
	dir string
}

func register(t *testing.T) *registered {
	r := &registered{fixture: &fixture{T: t}, dir: memory(t)}
	r.restart()
	return r
}

// restart goes on with what is on disk, as after a kill.
func (r *registered) restart() {
	r.Helper()
	r.fixture = start(r.T, policy.Policy{}, func(env *roster.Env) { env.Dir = r.dir })
}

// attaches has a process attach, and makes sure that it is fenced, or is not.
func (r *registered) attaches(process string, returns, fenced bool) {
	r.Helper()
	session, err := r.Attach("alice", nil, identity.Peer{ID: member("alice")}, roster.Process{Incarnation: process, Returns: returns})
	r.must(err)
	if got := session.Told().Ended == roster.Fenced; got != fenced {
		r.Errorf("%s (returning: %t) is fenced: %t, want %t", process, returns, got, fenced)
	}
}

func (r *registered) file() string { return filepath.Join(r.dir, ".groupcast-clients") }

// Of two processes of one name, the older stays fenced after the gatherer was started again, whichever is back first, and even if
// the newer is not back at all.
func TestTheOlderStaysFencedOverRestarts(t *testing.T) {
	r := register(t)
	r.attaches("older", false, false)
	r.attaches("newer", false, false)
	r.restart()
	r.attaches("older", true, true)
	r.attaches("newer", true, false)
	r.attaches("older", true, true)
	r.restart()
	r.restart()
	r.attaches("older", true, true)
	r.attaches("older", false, false) // begun again, it is the newest
	r.restart()
	r.attaches("newer", true, true)
}

// A line that a power cut has torn does not count, and harms no other; what a process says of itself cannot make two lines.
func TestTornRegister(t *testing.T) {
	r := register(t)
	r.attaches("older\nalice 0", false, false)
	r.attaches("newer\nalice 0", false, false)
	text, err := os.ReadFile(r.file())
	r.must(err)
	r.must(os.WriteFile(r.file(), append(text, "alice 12"...), 0o600))
	r.restart()
	r.attaches("older\nalice 0", true, true)
	r.attaches("newer\nalice 0", true, false)
}

// The register stays short, however often clients are started anew, and by however many at once.
func TestRegisterStaysShort(t *testing.T) {
	r := register(t)
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for j := range 1000 {
				_, err := r.Attach(fmt.Sprint("c", i), nil, identity.Peer{ID: operator}, roster.Process{Incarnation: fmt.Sprint(j)})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	r.await("there are no more lines than may be", func() bool { return len(said(r.file())) <= 1100 })
	r.attaches("older", false, false)
	r.attaches("newer", false, false)
	r.restart()
	r.attaches("older", true, true)
}

// While the disk takes for ever to keep the register, any number of clients attach as before, and the controller goes on. All that was
// noted meanwhile is kept.
func TestRegisterOnASlowDisk(t *testing.T) {
	r := &registered{fixture: &fixture{T: t}, dir: memory(t)}
	begun, goesOn := make(chan struct{}, 1), make(chan struct{})
	r.fixture = start(t, policy.Policy{}, func(env *roster.Env) { env.Dir = r.dir })
	r.SyncRegister(func(file *os.File) error {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-goesOn
		return file.Sync()
	})
	attached := make(chan struct{})
	go func() {
		defer close(attached)
		for i := range 1100 {
			r.attaches(fmt.Sprint(i), false, false)
		}
		<-begun
		r.attaches("older", false, false)
		r.attaches("newer", false, false)
		r.Observe()
	}()
	select {
	case <-attached:
	case <-time.After(time.Minute):
		t.Error("who attaches waits for the disk")
	}
	close(goesOn)
	<-attached
	r.await("it is written anew", func() bool { return len(said(r.file())) < 10 })
	r.restart()
	r.attaches("older", true, true)
	r.attaches("newer", true, false)
}

// A register that cannot be read does not count as empty.
func TestRegisterIsRead(t *testing.T) {
	r := register(t)
	r.must(os.Remove(r.file()))
	r.must(os.Mkdir(r.file(), 0o700))
	if _, err := roster.New(roster.Env{Dir: r.dir}); err == nil {
		t.Error("a register that cannot be read is taken for none")
	}
}

// On a full disk a gatherer starts with what the register has, and rewrites what is torn when there is room.
func TestRegisterOnAFullDisk(t *testing.T) {
	for what, torn := range map[string]string{"whole": "", "torn": "alice 12"} {
		t.Run(what, func(t *testing.T) {
			r := &registered{fixture: &fixture{T: t}, dir: testdisk.Memory(t, "size=1m")}
			r.restart()
			r.attaches("older", false, false)
			r.attaches("newer", false, false)
			text, err := os.ReadFile(r.file())
			r.must(err)
			r.must(os.WriteFile(r.file(), append(text, torn...), 0o600))
			filler := filepath.Join(r.dir, "filler")
			testdisk.Fill(t, filler)
			r.restart()
			r.attaches("older", true, true)
			r.attaches("newer", true, false)
			r.attaches("newest", false, false)
			r.must(os.Remove(filler))
			r.awaitWhole()
			r.restart()
			r.attaches("newer", true, true)
			r.attaches("newest", true, false)
		})
	}
}

// A gatherer whose disk is full before any client came starts, too.
func TestNoRegisterOnAFullDisk(t *testing.T) {
	r := &registered{fixture: &fixture{T: t}, dir: testdisk.Memory(t, "size=1m")}
	testdisk.Fill(t, filepath.Join(r.dir, "filler"))
	r.restart()
	r.attaches("first", false, false)
}

// awaitWhole waits until no line of the file is torn.
func (r *registered) awaitWhole() {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		text, err := os.ReadFile(r.file())
		r.must(err)
		if strings.HasSuffix(string(text), "\n") {
			return
		}
	}
	r.Fatal("what is torn is not written anew")
}

// attachesAs has a peer attach as node-7, and compares why it may not.
func (r *registered) attachesAs(peer identity.ID, want error) *roster.Session {
	r.Helper()
	session, err := r.Attach("node-7", nil, identity.Peer{ID: peer}, roster.Process{})
	if !errors.Is(err, want) {
		r.Errorf("%s attaches: %v, want %v", peer, err, want)
	}
	return session
}

// A member and an agent of one name are two clients. The second is refused, also after the gatherer was started again, and gets nothing
// of what the first has here. The first goes on, and so does an operator for it. Once nothing of it is here, the name is free.
func TestMemberIsNotTheAgentOfItsName(t *testing.T) {
	agent := identity.ID{Role: identity.Agent, Name: "node-7"}
	for first, second := range map[identity.ID]identity.ID{agent: member("node-7"), member("node-7"): agent} {
		r := register(t)
		r.attachesAs(operator, nil) // for either
		session := r.attachesAs(first, nil)
		r.attachesAs(second, roster.ErrName)
		if told := session.Told(); told.Ended != "" {
			t.Errorf("%s is told %+v", first, told)
		}
		content := []byte("content")
		opened := r.open(session, file("f", len(content)))
		r.must(opened.Upload.Came(content))
		_, err := r.finish(session, opened, content)
		r.must(err)
		r.attachesAs(operator, nil)
		r.restart()
		r.attachesAs(second, roster.ErrName)
		r.attachesAs(operator, nil)
		r.attachesAs(second, roster.ErrName)
		r.attachesAs(first, nil)
		r.restart()
		r.must(os.RemoveAll(filepath.Join(r.dir, "node-7")))
		r.attachesAs(second, nil)
		r.attachesAs(first, roster.ErrName)
	}
}

// A register of an earlier version has no roles: whoever comes first keeps the name, and processes are the ones that they were.
func TestEarlierRegister(t *testing.T) {
	r := register(t)
	r.attaches("older", false, false)
	r.attaches("newer", false, false)
	text, err := os.ReadFile(r.file())
	r.must(err)
	r.must(os.WriteFile(r.file(), bytes.ReplaceAll(text, []byte(" member\n"), []byte("\n")), 0o600))
	r.must(os.Mkdir(filepath.Join(r.dir, "alice"), 0o700))
	r.restart()
	r.attaches("older", true, true)
	r.attaches("newer", true, false)
	r.restart()
	agent := identity.Peer{ID: identity.ID{Role: identity.Agent, Name: "alice"}}
	if _, err := r.Attach("alice", nil, agent, roster.Process{}); !errors.Is(err, roster.ErrName) {
		t.Errorf("an agent of the name: %v", err)
	}
	r.attaches("older", true, true)
}
