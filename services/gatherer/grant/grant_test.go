package grant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/gatherer/grant"
)

// Nobody's groups are known before a manager has said them. A change is of one member, and a snapshot replaces
// what was known.
func TestGrantsAreWhatTheManagersSay(t *testing.T) {
	var list grant.List
	if _, err := list.Of("alice"); !errors.Is(err, grant.ErrUnsure) {
		t.Errorf("before anything was heard: %v", err)
	}
	want := func(member string, groups ...string) {
		t.Helper()
		if got, err := list.Of(member); err != nil || !slices.Equal(got, groups) {
			t.Errorf("%s may join %q (%v), want %q", member, got, err, groups)
		}
	}
	of := func(member string, groups ...string) *groupv1.Grant {
		return &groupv1.Grant{Member: member, Groups: groups}
	}
	grant.Take(&list, uplink.GrantEvent{Snapshot: []*groupv1.Grant{of("alice", "icu"), of("bob", "lab", "icu")}})
	want("alice", "icu")
	want("carol")
	grant.Take(&list, uplink.GrantEvent{Change: of("alice", "lab")})
	want("alice", "lab")
	want("bob", "lab", "icu")
	grant.Take(&list, uplink.GrantEvent{})
	want("bob")
}

// older are managers that do not know the call until they are upgraded, which is long after they were first asked.
type older struct{ asked int }

func (o *older) WatchGrants(ctx context.Context, each func(uplink.GrantEvent) error) error {
	if o.asked++; o.asked == 1 {
		return fmt.Errorf("watch grants: %w", status.Error(codes.Unimplemented, "unknown method"))
	}
	if err := each(uplink.GrantEvent{Snapshot: []*groupv1.Grant{{Member: "alice", Groups: []string{"icu"}}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// While the managers are older than the gatherer nobody is in a group, and clients are let in; it ends when they are upgraded.
func TestOlderManagersKnowNoGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list grant.List
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- list.Run(ctx, &older{}) }()
		synctest.Wait()
		if groups, err := list.Of("alice"); err != nil || len(groups) > 0 {
			t.Errorf("of older managers: %q, %v", groups, err)
		}
		time.Sleep(time.Minute)
		if groups, err := list.Of("alice"); err != nil || !slices.Equal(groups, []string{"icu"}) {
			t.Errorf("when they were upgraded: %q, %v", groups, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
