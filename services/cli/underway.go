package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// underWay is what a member is receiving.
type underWay struct {
	mu  sync.Mutex
	all []sdk.Incoming
}

func (u *underWay) begins(in sdk.Incoming) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, in)
}

func (u *underWay) ends(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(in sdk.Incoming) bool { return in.ID == id })
}

// unfinished says what is not whole when a member is interrupted, and what is left of it.
func (u *underWay) unfinished(to io.Writer, by *pull) {
	u.mu.Lock()
	defer u.mu.Unlock()
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
