package gathered_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/gathered"
)

// A path leads nowhere but below its client's directory, and into no stream; files and streams cannot have the same name.
func TestPaths(t *testing.T) {
	deep := func(directories int) string { return strings.Repeat("d/", directories) + "f" }
	both := []string{
		"", "/", "..", "../x", "a/../b", "a//b", "a/", "/etc/passwd", ".", "a\x00b", deep(31), strings.Repeat("n", 300), "a\xff", "a\xff/f",
		".groupcast-partial", ".groupcast-partial/x", "log.stream/committed", strings.Repeat(strings.Repeat("n", 250)+"/", 17) + "f",
	}
	for _, path := range both {
		for _, stream := range []bool{false, true} {
			if err := gathered.CheckPath(path, stream); !errors.Is(err, gathered.ErrPath) {
				t.Errorf("%.80q (a stream: %t): %v", path, stream, err)
			}
		}
	}
	long := strings.Repeat("n", 250) // with the suffix, it is too long for a stream
	for path, want := range map[string][2]bool{"f": {true, true}, deep(30): {true, true}, "a/log.stream": {false, true}, long: {true, false}} {
		for i, stream := range []bool{false, true} {
			if err := gathered.CheckPath(path, stream); (err == nil) != want[i] {
				t.Errorf("%.80q (a stream: %t): %v", path, stream, err)
			}
		}
	}
}
