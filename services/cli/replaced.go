package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// sayReplaced says so if a member of this name is joined already. Of two sessions of one name the later ends the earlier, which may be
// intended, or may be somebody else's.
func (a *app) sayReplaced(ctx context.Context, client *sdk.Client, join sdk.Join) {
	asking, cancel := context.WithTimeout(ctx, min(a.timeout, whoTimeout)) // nobody waits long for a hint
	defer cancel()
	members, err := client.Members(asking, join.Group)
	if err != nil {
		return // joining says why
	}
	for _, m := range members {
		if m.Name == join.Name && m.State == "active" {
			fmt.Fprintf(a.stderr, "%s is joined already, on %s: that session ends by this one\n", m.Name, whereSince(m))
		}
	}
}

// whereSince says on which machine a member is, and since when.
func whereSince(m sdk.Member) string {
	return fmt.Sprintf("%s since %s", cmp.Or(printable.Text(m.Node), "an unknown machine"), m.Joined.Local().Format(time.DateTime))
}

// whoTimeout is how long is asked who else has a member's name.
const whoTimeout = 2 * time.Second

// replaced adds to an error by which another program has joined as this member where that one is, if a manager says so, and what to do.
func (a *app) replaced(ctx context.Context, client *sdk.Client, err error) error {
	var ended *sdk.SessionEnded
	if !errors.As(err, &ended) || ended.State != "fenced" || a.session == nil {
		return err
	}
	own, where := a.session.Member(), ""
	asking, cancel := context.WithTimeout(ctx, whoTimeout)
	defer cancel()
	members, _ := client.Members(asking, own.Group) // without an answer it stays unknown
	for _, m := range members {
		if m.Name == own.Name && m.Incarnation > own.Incarnation {
			where = ", on " + whereSince(m)
		}
	}
	member, _, _ := strings.Cut(own.Name, ".")
	return fmt.Errorf("%w (%s in group %s%s): end one of them, or give each a name of its own, as --as %s.other", err, own.Name, own.Group, where, member)
}
