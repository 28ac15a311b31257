package versions_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
)

// What changed of a directory gets to members of this version, through agents and managers of both. A member of the version before
// does not know how such a directory begins: it fails, which says so, and what it has stays as it was.
func TestChangesBetweenVersions(t *testing.T) {
	for _, manager := range versions {
		t.Run("a manager of "+manager.name, func(t *testing.T) {
			s := begin(t, manager, "a", "b")
			s.agent(earlier, "a")
			s.agent(today, "b")
			into := s.members("a", "b")
			for _, host := range []string{"a", "b"} {
				name := "release-from-" + host
				directory, first := filepath.Join(s.dir, name), filepath.Join(s.dir, "first", name)
				for _, file := range []string{"weights", "below/more", "changes"} {
					s.file(filepath.Join(name, file), 1<<20)
				}
				s.must(os.CopyFS(first, os.DirFS(directory)))
				s.run(today, host, "push", directory, "--group", "group", "--node", s.hosts[host].Name())
				s.file(filepath.Join(name, "changes"), 1<<20)
				s.file(filepath.Join(name, "new"), 1<<16)
				push := s.start(today, host, "push", directory, "--changes", "--group", "group", "--node", s.hosts[host].Name())
				if exit := new(exec.ExitError); !errors.As(push.Wait(), &exit) || exit.ExitCode() != 3 || strings.Count(push.Output(), "version 2") < 2 {
					t.Errorf("from %s, with members of the version before: %v\n%s", host, exit, push.Output())
				}
				for _, at := range into {
					want := directory
					if strings.HasPrefix(filepath.Base(at), earlier.name) {
						want = first
					}
					labtest.WantCopy(s, want, filepath.Join(at, name))
				}
			}
		})
	}
}
