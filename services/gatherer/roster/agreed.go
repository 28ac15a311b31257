package roster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
)

// ErrStale says that the policy is not the one any more that was read.
var ErrStale = errors.New("the policy was changed by somebody else meanwhile: read it again")

// Agreed is the policy, kept in a file. The revision counts how often it was set since
// the gatherer started.
type Agreed struct {
	file string

	mu       sync.Mutex
	policy   policy.Policy
	revision uint64
}

// OpenPolicy reads the policy that was kept in a file; where there is none, first holds.
func OpenPolicy(file string, first policy.Policy) (*Agreed, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Agreed{file: file, policy: first, revision: 1}, first.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	kept, err := policy.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Agreed{file: file, policy: kept, revision: 1}, nil
}

// Get returns the policy and its revision.
func (a *Agreed) Get() (policy.Policy, uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.policy, a.revision
}

// Set replaces the policy, if the revision is what it was when it was read; zero replaces any.
func (a *Agreed) Set(next policy.Policy, read uint64) (revision uint64, err error) {
	if err := next.Validate(); err != nil {
		return 0, err
	}
	text, err := next.Text()
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if read != 0 && read != a.revision {
		return 0, ErrStale
	}
	if err := identity.WriteFile(a.file, text, 0o600); err != nil {
		return 0, fmt.Errorf("keep policy: %w", err)
	}
	a.policy = next
	a.revision++
	return a.revision, nil
}
