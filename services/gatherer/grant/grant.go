// Package grant knows which groups members may join, as the managers say.
package grant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/uplink"
)

// ErrUnsure says that a member's groups are not known.
var ErrUnsure = errors.New("no manager has said yet which groups members may join: try again when the managers are back")

// List says which groups members may join. While no manager is reached, what was heard last holds.
type List struct {
	mu     sync.RWMutex
	groups map[string][]string // by member; nil is not known yet
}

// managers say who may join which groups.
type managers interface {
	WatchGrants(ctx context.Context, each func(uplink.GrantEvent) error) error
}

// unheardPause is how often managers of such a version are asked again.
const unheardPause = 30 * time.Second

// Run follows the managers until ctx is done. Managers of an earlier version do not know of groups in policies, as when they are
// upgraded after the gatherer: nobody is in a group then.
func (l *List) Run(ctx context.Context, managers managers) error {
	for {
		err := managers.WatchGrants(ctx, func(event uplink.GrantEvent) error {
			l.take(event)
			return nil
		})
		switch {
		case status.Code(err) == codes.Unimplemented:
			l.take(uplink.GrantEvent{})
		case err != nil:
			return fmt.Errorf("learn who may join which groups: %w", err)
		}
		if !pause.For(ctx, unheardPause) {
			return nil
		}
	}
}

func (l *List) take(event uplink.GrantEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := event.Snapshot
	if event.Change != nil {
		all = []*groupv1.Grant{event.Change}
	} else {
		l.groups = make(map[string][]string, len(all))
	}
	for _, one := range all {
		l.groups[one.GetMember()] = one.GetGroups()
	}
}

// Of returns which groups a member may join.
func (l *List) Of(member string) ([]string, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.groups == nil {
		return nil, ErrUnsure
	}
	return l.groups[member], nil
}
