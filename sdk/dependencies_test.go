package sdk_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The SDK is linked into other people's programs: it brings no database and no
// service with it.
func TestSDKIsLight(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(output))
	if len(packages) < 50 {
		t.Fatalf("only %d packages are listed", len(packages))
	}
	for _, path := range packages {
		for _, heavy := range []string{"go.etcd.io/", "github.com/groupcast/groupcast/services/", "github.com/spf13/", "github.com/prometheus/"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("the SDK links %s", path)
			}
		}
	}
}
