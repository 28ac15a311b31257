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

// isGuessed reports whether the user has not said where the gatherer is: it is taken to be where a standalone server has one.
func isGuessed(command *cobra.Command) bool {
	return !command.Flags().Changed("to") && os.Getenv(gathererVariable) == ""
}

// guess ends an upload to where a gatherer is only taken to be, if none has answered there after a while. If one has, it waits: a gatherer
// that was there may come back, and one that lets nobody in now may do so later.
type guess struct {
	patience time.Duration
	begun    time.Time // when the first progress came: a tree is looked at before that
	stop     context.CancelCauseFunc
	met      bool
	failed   error // why it has ended the upload; nil if it has not
}

// heard is called a few times a second. On a nil guess it does nothing.
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

// why returns why the guess has ended the upload, if it has, or else the error of the upload.
func (g *guess) why(err error) error {
	if g != nil && g.failed != nil && err != nil {
		return g.failed // once, and not for each file that was under way
	}
	return err
}
