package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// isGuessed reports whether nobody has said where the gatherer is: it is taken to be where a standalone server has one.
func isGuessed(command *cobra.Command) bool {
	return !command.Flags().Changed("to") && os.Getenv(gathererVariable) == ""
}

// guess ends an upload to where a gatherer is taken to be, if none has answered after a while. One that was there may come back, and
// one that lets nobody in now may do so later.
type guess struct {
	patience time.Duration
	begun    time.Time // when it was first heard of: before, a tree is looked at
	stop     context.CancelCauseFunc
	met      bool
	failed   error // once it has ended the upload
}

// heard is called a few times a second; of no guess, it does nothing.
func (g *guess) heard(p gather.Progress) {
	if g == nil || g.met || g.failed != nil {
		return
	}
	if g.begun.IsZero() {
		g.begun = time.Now()
	}
	if g.met = p.Attached || p.DetachedReason != ""; g.met || time.Since(g.begun) < g.patience {
		return
	}
	g.failed = &sdk.Error{Code: sdk.Unavailable, Message: fmt.Sprintf("not connected within %v: %s", g.patience, cmp.Or(p.Detached, "nobody has answered"))}
	g.stop(g.failed)
}

// why returns why the upload was ended, if it was; else what has become of it.
func (g *guess) why(err error) error {
	if g != nil && g.failed != nil && err != nil {
		return g.failed // and not for each of the files that were under way
	}
	return err
}
