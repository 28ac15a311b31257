package roster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/policy"
)

// Why a policy is not set.
var (
	ErrPolicy = errors.New("the policy is wrong")
	ErrStale  = errors.New("the policy was changed by somebody else meanwhile: read it again")
)

// Agreed is the policy, kept in a file. Its revision grows with each change, over restarts, too, so that whoever has read an earlier
// policy cannot replace a later one.
type Agreed struct {
	log   *slog.Logger
	file  string
	write func(name string, content []byte, mode os.FileMode) error

	setting  sync.Mutex // held over writes, however long they take; before mu
	mu       sync.Mutex // never held over a write: sessions wait for those who read
	policy   policy.Policy
	revision uint64
}

// OpenPolicy reads the policy that was kept in a file; where there is none, first holds.
func OpenPolicy(log *slog.Logger, file string, first policy.Policy) (*Agreed, error) {
	a := &Agreed{log: log, file: file, write: identity.WriteFile, policy: first}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = first.Validate()
	case err != nil:
		return nil, fmt.Errorf("read policy: %w", err)
	default:
		if a.policy, err = policy.Parse(text); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return a, a.resume()
}

// resume takes up the revision that was kept. If that is of another policy, since the file or first has changed, it is the one after.
func (a *Agreed) resume() error {
	text, err := os.ReadFile(a.revisionFile())
	if errors.Is(err, fs.ErrNotExist) {
		return a.takeUp(1)
	}
	if err != nil {
		return fmt.Errorf("read the policy's revision: %w", err)
	}
	if _, err := fmt.Sscanf(string(text), "%d", &a.revision); err != nil {
		return fmt.Errorf("%s is damaged (%w): remove it if no client has read the policy that means to set it", a.revisionFile(), err)
	}
	if now, err := recordOf(a.policy, a.revision); err != nil || now == string(text) {
		return err
	}
	return a.takeUp(a.revision + 1)
}

// takeUp gives the policy that was found a revision. Where there is no room to keep it, the number is by the clock: the next start does
// not know of it, and may go back to a smaller one, but gives none that another policy has had, unless the clock was set back.
func (a *Agreed) takeUp(revision uint64) error {
	err := a.keepRevision(a.policy, revision)
	if noroom.Is(err) {
		revision, err = max(revision, uint64(time.Now().UnixMicro())), nil
		a.log.Warn("the disk has no room for the revision of the policy: it is kept when a policy is set", "revision", revision, "file", a.revisionFile())
	}
	a.revision = revision
	return err
}

// keepRevision makes a policy's revision durable.
func (a *Agreed) keepRevision(of policy.Policy, revision uint64) error {
	record, err := recordOf(of, revision)
	if err == nil {
		err = a.write(a.revisionFile(), []byte(record), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the policy's revision: %w", err)
	}
	return nil
}

func (a *Agreed) revisionFile() string { return a.file + ".revision" }

// recordOf returns the content of the revision's file: a number, and of which policy it is.
func recordOf(p policy.Policy, revision uint64) (string, error) {
	text, err := p.Text()
	return fmt.Sprintf("%d %x\n", revision, sha256.Sum256(text)), err
}

// Get returns the policy and its revision. It never waits for the disk.
func (a *Agreed) Get() (policy.Policy, uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.policy, a.revision
}

// Set replaces the policy if its revision is still read; zero replaces any. An equal policy keeps its revision. Until all is on the disk
// the one before holds, with its revision.
func (a *Agreed) Set(next policy.Policy, read uint64) (revision uint64, err error) {
	text, err := textOf(next)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	a.setting.Lock()
	defer a.setting.Unlock()
	before, revision := a.Get()
	if read != 0 && read != revision {
		return 0, ErrStale
	}
	// The number is kept first: whatever happens in between, no two policies have the same.
	now, err := before.Text()
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(now, text) {
		revision++
	}
	if err := a.keepRevision(next, revision); err != nil { // also of an equal policy: at the start there may have been no room
		return 0, err
	}
	if err := a.write(a.file, text, 0o600); err != nil {
		a.goOn(before, revision) // the number is used up
		return 0, fmt.Errorf("keep policy: %w", err)
	}
	a.goOn(next, revision)
	return revision, nil
}

// textOf returns a policy as it is written, if the next start can read that: a number near 2^64, for one, can be written and not read.
func textOf(p policy.Policy) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	text, err := p.Text()
	if err == nil {
		_, err = policy.Parse(text)
	}
	return text, err
}

// goOn has a policy and its revision hold.
func (a *Agreed) goOn(now policy.Policy, revision uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policy, a.revision = now, revision
}
