package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
)

const module = "github.com/groupcast/groupcast/"

var built struct {
	sync.Mutex
	dir      string
	programs map[string]string // by package
}

// Program builds a command of this module, with names for profiles, and returns where it is
// until Clean. A second call finds it built.
func Program(ctx context.Context, pkg string) (file string, err error) {
	built.Lock()
	defer built.Unlock()
	if file, has := built.programs[pkg]; has {
		return file, nil
	}
	if built.dir == "" {
		if built.dir, err = os.MkdirTemp("", "groupcast-commands-"); err != nil {
			return "", err
		}
		built.programs = map[string]string{}
	}
	file = filepath.Join(built.dir, path.Base(pkg))
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, module+pkg)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	built.programs[pkg] = file
	return file, nil
}

// Clean removes the commands that were built.
func Clean() {
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
		built.dir, built.programs = "", nil
	}
}
