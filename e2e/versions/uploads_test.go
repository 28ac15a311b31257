package versions_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/sdk/gather"
)

// gatherer starts a gatherer of a version on a host.
func (s *site) gatherer(v version, host string) *lab.Process {
	s.Helper()
	s.Build = v.build
	process, err := s.Gatherer(s.ctx, s.hosts[host], gather.Policy{})
	s.must(err)
	return process
}

// Clients and gatherers of two versions, with a manager of either version, lose nothing.
func TestUploadsBetweenVersions(t *testing.T) {
	for _, manager := range versions {
		t.Run("a manager of "+manager.name, func(t *testing.T) {
			s := begin(t, manager, "earlier", "today", "client")
			for _, v := range versions {
				s.gatherer(v, v.name)
			}
			for _, gatherer := range versions {
				for _, client := range versions {
					s.uploadEverything(client, gatherer)
				}
			}
		})
	}
}

// uploadEverything uploads a file and a directory of many files.
func (s *site) uploadEverything(client, gatherer version) {
	s.Helper()
	host := s.hosts[gatherer.name]
	to, name := host.At(fleet.GathererPort), fmt.Sprintf("%s-to-%s", client.name, gatherer.name)
	file, directory := s.file(name+"-file", 3<<20+5), filepath.Join(s.dir, name+"-directory")
	for i := range 40 {
		s.file(filepath.Join(filepath.Base(directory), "below", fmt.Sprint(i)), 100*i)
	}
	for _, source := range []string{file, directory} {
		s.run(client, "client", "upload", source, "--to", to, "--as", name)
	}
	gathered := filepath.Join(s.Gathered(host), name)
	labtest.WantCopy(s, file, filepath.Join(gathered, filepath.Base(file)))
	labtest.WantCopy(s, directory, filepath.Join(gathered, filepath.Base(directory)))
	if said := s.run(client, "client", "gather", "clients", "--to", to); !strings.Contains(said, name) {
		s.Errorf("the clients are:\n%s", said)
	}
	s.run(client, "client", "gather", "policy", "get", "--to", to)
}
