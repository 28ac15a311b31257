package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

const module = "github.com/groupcast/groupcast/"

var built struct {
	sync.Mutex
	dir string
}

// commands builds the commands once and returns where they are, until Clean.
func commands(ctx context.Context) (dir string, err error) {
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		return built.dir, nil
	}
	dir, err = os.MkdirTemp("", "groupcast-commands-")
	if err != nil {
		return "", err
	}
	if err := Build(ctx, dir, "services/cli/cmd/groupcast", "services/agent/cmd/groupcast-agent", "services/standalone/cmd/groupcast-standalone"); err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	built.dir = dir
	return dir, nil
}

// Build builds commands of this module into a directory, as users get them.
func Build(ctx context.Context, dir string, packages ...string) error {
	arguments := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}
	for _, name := range packages {
		arguments = append(arguments, module+name)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the commands: %w\n%s", err, output)
	}
	return nil
}

// Clean removes the commands that were built.
func Clean() {
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
		built.dir = ""
	}
}
