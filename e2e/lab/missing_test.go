package lab

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingSaysInOneSentenceWhatIsMissing(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "tun")
	for want, err := range map[string]error{
		"needs root to make network namespaces, and runs as user 1000": missing(1000, tunDevice),
		"needs TUN devices, and " + absent + " cannot be opened: ":     missing(0, absent),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v does not say %q in one line", err, want)
		}
	}
}
