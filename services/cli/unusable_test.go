package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// A problem with a file or a directory that may pass is no usage error: systemd does not start a member again that was called wrongly.
func TestWhatMayPassIsNoWrongCall(t *testing.T) {
	for _, passing := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EACCES, syscall.EPERM, syscall.ESTALE, syscall.EMFILE} {
		err := fmt.Errorf("nothing can be put into it: %w", &fs.PathError{Op: "mkdir", Path: "received", Err: passing})
		if got := exitStatus(unusable(err)); got != exitFailed {
			t.Errorf("%v: %d", passing, got)
		}
		if got := exitStatus(unusable(sdk.Because(sdk.InvalidArgument, err))); got != exitFailed {
			t.Errorf("%v of credentials: %d", passing, got)
		}
	}
	for _, wrong := range []error{
		&fs.PathError{Op: "open", Path: "config.yaml", Err: syscall.ENOENT},
		&fs.PathError{Op: "mkdir", Path: "file/received", Err: syscall.ENOTDIR},
		errors.New("unknown key endpoint"),
	} {
		if got := exitStatus(unusable(wrong)); got != exitUsage {
			t.Errorf("%v: %d", wrong, got)
		}
	}
}
