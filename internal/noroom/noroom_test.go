package noroom_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
)

func TestNamed(t *testing.T) {
	for _, full := range []error{noroom.Err, unix.ENOSPC, unix.EDQUOT, &fs.PathError{Op: "write", Path: "f", Err: unix.ENOSPC}} {
		named := noroom.Named(full)
		if !noroom.Is(full) || !errors.Is(named, noroom.Err) || !errors.Is(named, full) || named.Error() != full.Error() {
			t.Errorf("%v is named %v", full, named)
		}
	}
	for _, other := range []error{nil, unix.EIO, errors.New("no room on disk")} {
		if noroom.Is(other) || fmt.Sprint(noroom.Named(other)) != fmt.Sprint(other) {
			t.Errorf("%v passes for a full disk", other)
		}
	}
}
