package roster_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// agreement is a policy's file, and the gatherer that has it open.
type agreement struct {
	*testing.T
	*roster.Agreed
	file  string
	first policy.Policy
}

// restart opens the policy again, and returns its revision.
func (a *agreement) restart() uint64 {
	a.Helper()
	var err error
	if a.Agreed, err = roster.OpenPolicy(slog.New(slog.DiscardHandler), a.file, a.first); err != nil {
		a.Fatal(err)
	}
	_, revision := a.Get()
	return revision
}

func (a *agreement) set(p policy.Policy, read uint64) (revision uint64) {
	a.Helper()
	revision, err := a.Set(p, read)
	if err != nil {
		a.Fatal(err)
	}
	return revision
}

// isStale makes sure that nobody can replace the policy by a revision.
func (a *agreement) isStale(read uint64) {
	a.Helper()
	if _, err := a.Set(policy.Policy{}, read); !errors.Is(err, roster.ErrStale) {
		a.Errorf("who has read revision %d sets the policy: %v", read, err)
	}
}

func agree(t *testing.T) *agreement { return agreeIn(t, t.TempDir()) }

func agreeIn(t *testing.T, dir string) *agreement {
	a := &agreement{T: t, file: filepath.Join(dir, "policy.yaml")}
	a.restart()
	return a
}

func prefers(priority int) policy.Policy {
	return policy.Policy{Default: policy.Share{Priority: priority}}
}

// A revision that was read before a restart is still the same policy's after it, and no other's.
func TestRevisionsOutliveRestarts(t *testing.T) {
	a := agree(t)
	second := a.set(prefers(2), 1)
	if now := a.restart(); now != second {
		t.Errorf("revision %d is %d after a restart", second, now)
	}
	third := a.set(prefers(3), second)
	a.restart()
	a.isStale(1)
	a.isStale(second)
	if fourth := a.set(prefers(2), third); fourth <= third { // as it was before, and yet later
		t.Errorf("revision %d after %d", fourth, third)
	}
}

// A policy that is set again keeps its revision: whoever has read it can still replace it.
func TestEqualPolicyKeepsItsRevision(t *testing.T) {
	a := agree(t)
	second := a.set(prefers(2), 0)
	if again := a.set(prefers(2), second); again != second {
		t.Errorf("revision %d of a policy of revision %d", again, second)
	}
	if now := a.restart(); now != second {
		t.Errorf("revision %d is %d after a restart", second, now)
	}
	a.isStale(second - 1)
	a.set(prefers(4), second)
}

// The first policy, set as it is, is kept like any other.
func TestFirstPolicyThatIsSet(t *testing.T) {
	a := agree(t)
	first := a.set(policy.Policy{}, 0)
	a.first = prefers(1)
	if now := a.restart(); now != first {
		t.Errorf("revision %d, want %d of what was set", now, first)
	}
}

// A policy that was not set, but is there otherwise, has a revision of its own: another one in the configuration, an edited file, or
// none any more.
func TestOtherPoliciesHaveOtherRevisions(t *testing.T) {
	a := agree(t)
	last := a.restart()
	next := func(what string, change func()) {
		t.Helper()
		change()
		now := a.restart()
		if now <= last || a.restart() != now {
			t.Errorf("%s: revision %d after %d, then %d", what, now, last, a.restart())
		}
		a.isStale(last)
		last = now
	}
	next("another first policy", func() { a.first = prefers(1) })
	last = a.set(prefers(2), last)
	next("an edited file", func() { a.write(a.file, "default: {priority: 5}") })
	next("no file", func() { a.remove(a.file) })
}

// If a revision was kept and its policy was not, as when the power fails in between, the policy has neither that revision nor the one
// before.
func TestRevisionOfAPolicyThatWasNotKept(t *testing.T) {
	a := agree(t)
	second := a.set(prefers(2), 1)
	before, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	third := a.set(prefers(3), second)
	a.write(a.file, string(before))
	a.restart()
	a.isStale(second)
	a.isStale(third)
}

// While a policy is written, however long the disk takes, whoever reads has the one before, with its revision. Both hold together: what
// goes by a revision would not see the policy otherwise.
func TestPolicyIsReadWhileAnotherIsWritten(t *testing.T) {
	a := agree(t)
	first := a.set(prefers(1), 0)
	writes, goesOn := make(chan struct{}), make(chan struct{})
	a.WriteWith(func() {
		writes <- struct{}{}
		<-goesOn
	})
	var setting errgroup.Group
	setting.Go(func() error {
		_, err := a.Set(prefers(2), first)
		return err
	})
	for range 2 { // its revision, and the policy
		<-writes
		a.reads(prefers(1), first)
		goesOn <- struct{}{}
	}
	if err := setting.Wait(); err != nil {
		t.Fatal(err)
	}
	a.reads(prefers(2), first+1)
}

// reads makes sure that who reads need not wait, and has a policy.
func (a *agreement) reads(want policy.Policy, wantRevision uint64) {
	a.Helper()
	read := make(chan struct{})
	go func() {
		defer close(read)
		if now, revision := a.Get(); now.Default != want.Default || revision != wantRevision {
			a.Errorf("%+v of revision %d is read, want %+v of %d", now, revision, want, wantRevision)
		}
	}()
	select {
	case <-read:
	case <-time.After(20 * time.Second):
		a.Fatal("who reads the policy waits for who sets it")
	}
}

// On a full disk a gatherer starts with a policy that was changed by hand, and no two policies have one revision. What the policy has then
// is kept with the next that is set, though it be equal.
func TestRevisionsOnAFullDisk(t *testing.T) {
	for what, change := range map[string]func(*agreement) policy.Policy{
		"changed": func(*agreement) policy.Policy { return prefers(9) },
		"equal":   func(a *agreement) policy.Policy { now, _ := a.Get(); return now },
	} {
		t.Run(what, func(t *testing.T) {
			a := agreeIn(t, testdisk.Memory(t, "size=1m"))
			known := map[uint64]bool{a.set(prefers(1), 0): true}
			next := func(revision uint64) {
				t.Helper()
				if known[revision] {
					t.Errorf("revision %d is of two policies", revision)
				}
				known[revision] = true
			}
			filler := filepath.Join(filepath.Dir(a.file), "filler")
			a.edit(2, filler)
			next(a.restart())
			a.edit(3, filler)
			now := a.restart()
			next(now)
			if _, err := a.Set(prefers(4), now); !noroom.Is(err) {
				t.Errorf("a policy is set: %v", err)
			}
			a.remove(filler)
			set := a.set(change(a), now)
			if set != now {
				next(set)
			}
			if after := a.restart(); after != set {
				t.Errorf("revision %d is %d after a restart", set, after)
			}
			a.edit(5, filler)
			next(a.restart())
			a.remove(filler)
			a.edit(6)
			next(a.restart())
		})
	}
}

// The first policy of a gatherer whose disk is full has a revision, too.
func TestNoRevisionOnAFullDisk(t *testing.T) {
	a := &agreement{T: t, file: filepath.Join(testdisk.Memory(t, "size=1m"), "policy.yaml")}
	testdisk.Fill(t, filepath.Join(filepath.Dir(a.file), "filler"))
	first := a.restart()
	a.first = prefers(1)
	a.restart()
	a.isStale(first)
}

// edit changes the policy by hand, and then fills the disk with a file if that is named.
func (a *agreement) edit(priority int, filler ...string) {
	a.Helper()
	for _, one := range filler {
		_ = os.Remove(one) // there may be none
	}
	a.write(a.file, fmt.Sprintf("default: {priority: %d}", priority))
	for _, one := range filler {
		testdisk.Fill(a.T, one)
	}
}

// With a revision that cannot be read the gatherer does not start.
func TestDamagedRevisionIsRefused(t *testing.T) {
	a := agree(t)
	a.write(a.file+".revision", "many")
	if _, err := roster.OpenPolicy(slog.New(slog.DiscardHandler), a.file, a.first); err == nil {
		t.Error("a damaged revision is taken for none")
	}
}

func (a *agreement) write(name, text string) {
	a.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		a.Fatal(err)
	}
}

func (a *agreement) remove(name string) {
	a.Helper()
	if err := os.Remove(name); err != nil {
		a.Fatal(err)
	}
}
