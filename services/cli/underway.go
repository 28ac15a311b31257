package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// underWay is what a member is receiving.
type underWay struct {
	mu   sync.Mutex
	all  []sdk.Incoming
	left []sdk.Incoming // of an earlier session, and not begun again
	any  bool           // something has begun since the command did
}

func without(all []sdk.Incoming, id string) []sdk.Incoming {
	return slices.DeleteFunc(all, func(in sdk.Incoming) bool { return in.ID == id })
}

func (u *underWay) begins(in sdk.Incoming) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all, u.left, u.any = append(u.all, in), without(u.left, in.ID), true
}

// nothingNewAfter is how long nothing must have begun before a member that is to receive one delivery says that it waits for the next:
// what is kept for it begins as soon as it has joined.
const nothingNewAfter = 2 * time.Second

// sayNothingNew says so, unless it is stopped before.
func (u *underWay) sayNothingNew(ctx context.Context, to io.Writer, member string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if pause.For(ctx, nothingNewAfter) && !u.hasBegun() {
			fmt.Fprintf(to, "nothing that is kept is new to %s: waiting for the next push\n", member)
		}
	})
	return func() {
		cancel()
		waiting.Wait()
	}
}

func (u *underWay) hasBegun() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.any
}

func (u *underWay) ends(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = without(u.all, id)
}

// sessionEnds leaves all behind: the next session begins again with what it receives of that.
func (u *underWay) sessionEnds() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all, u.left = nil, append(u.left, u.all...)
}

// leftBehind returns what an earlier session was receiving and this one is not.
func (u *underWay) leftBehind() []sdk.Incoming {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.left)
}

// isBusy reports whether something is received now.
func (u *underWay) isBusy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.all) > 0
}

// giveUp forgets a delivery that was left behind, and reports whether it was, and has not begun again meanwhile.
func (u *underWay) giveUp(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := len(u.left)
	u.left = without(u.left, id)
	return len(u.left) < before
}

// unfinished says what is not whole when a member is interrupted, and what becomes of it.
func (u *underWay) unfinished(to io.Writer, by *pull) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all, u.left = append(u.all, u.left...), nil
	slices.SortFunc(u.all, func(a, b sdk.Incoming) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	for _, in := range u.all {
		left := ""
		switch {
		case in.Kind == sdk.Stream && !by.stdout:
			left = fmt.Sprintf("; what came is kept in %s, as a file that ends with .incomplete", printable.Text(by.into))
		case in.Kind != sdk.Stream && by.into != "":
			left = "; what came is kept, and the same command goes on from there"
		}
		fmt.Fprintf(to, "%s from %s is unfinished%s\n", printable.Text(in.Name), in.Sender, left)
	}
	u.all = nil
}
