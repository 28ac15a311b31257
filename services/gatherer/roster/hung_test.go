package roster_test

import (
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// A process that is new has to be noted on the disk. While that does not answer, it alone waits: those that are there are told what to do,
// others come back, and places are reviewed.
func TestNewcomerOnAHungDiskHoldsUpNobody(t *testing.T) {
	disk := testdisk.New(t, "64m")
	f := start(t, policy.Policy{}, func(env *roster.Env) { env.Dir, env.Free = disk.Dir, nil })
	attach := func(name, process string) (session *roster.Session) {
		session, err := f.Attach(name, nil, identity.Peer{ID: member(name)}, roster.Process{Incarnation: process, Returns: true})
		if err != nil {
			t.Error(err)
		}
		return session
	}
	there := attach("there", "its process")
	thaw := testdisk.Freeze(t, disk.Dir)
	newcomer := make(chan struct{})
	go func() {
		defer close(newcomer)
		attach("new", "another process")
	}()
	var others sync.WaitGroup
	others.Go(func() {
		for !f.IsAttached("new") { // then it waits for the disk
			time.Sleep(10 * time.Millisecond)
		}
		there.Told()
		f.Review()
		attach("there", "its process")
	})
	done := make(chan struct{})
	go func() {
		others.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("others wait for the disk, too")
	}
	select {
	case <-newcomer:
		t.Error("a process is let in that is not noted")
	default:
	}
	thaw()
	<-newcomer
	<-done
}
