package builds

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// `make install` refuses directories in which systemd does not look: units name programs without a path.
func TestInstallsWhereSystemdLooks(t *testing.T) {
	dir := t.TempDir()
	output, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "install", "PREFIX=/opt/groupcast", "DESTDIR="+dir).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "PREFIX is /opt/groupcast: systemd looks for units") {
		t.Errorf("%v: %s", err, output)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		t.Errorf("%v are installed, %v", there, err)
	}
}
