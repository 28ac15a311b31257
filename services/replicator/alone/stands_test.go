package alone

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testdisk"
)

// A receiver whose target, or --state, is on a disk that does not answer from the beginning ends as one does later: it says so.
func TestReceiverOfADiskThatStandsFromTheBeginning(t *testing.T) {
	for _, flag := range []string{"--into", "--state"} {
		t.Run(flag, func(t *testing.T) {
			disk := testdisk.New(t, "16m").Dir
			thaw := testdisk.Freeze(t, disk)
			ended := make(chan struct{})
			var status int
			var lines []string
			go func() {
				defer close(ended)
				arguments := []string{"receive", "--lan", "lo", "--key", phrase, "--await", "1s", "--disk-patience", "1s", "--into", t.TempDir()}
				status, lines = called(append(arguments, flag, filepath.Join(disk, "new"))...)
			}()
			select {
			case <-ended:
				if status != exitFailed || !strings.Contains(strings.Join(lines, "\n"), filepath.Join(disk, "new")) {
					t.Errorf("it ends with %d: %q", status, lines)
				}
			case <-time.After(20 * time.Second):
				t.Error("it does not end")
			}
			thaw()
			<-ended
		})
	}
}
