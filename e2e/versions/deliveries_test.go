package versions_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
)

// Whatever the versions of the manager, the sender, and the agents and members on the way, everything that is sent arrives.
func TestDeliveriesBetweenVersions(t *testing.T) {
	for _, manager := range versions {
		t.Run("a manager of "+manager.name, func(t *testing.T) {
			s := begin(t, manager, "a", "b")
			s.agent(earlier, "a")
			s.agent(today, "b")
			into := s.members("a", "b")
			for _, host := range []string{"a", "b"} {
				for _, sender := range versions {
					s.sendEverything(sender, host, into)
				}
			}
		})
	}
}

// sendEverything sends something of each kind.
func (s *site) sendEverything(sender version, host string, into []string) {
	s.Helper()
	name := fmt.Sprintf("%s-from-%s", sender.name, host)
	node := s.hosts[host].Name()
	for _, mode := range []string{"hop", "end-to-end"} {
		file := s.file(name+"-"+mode, 3<<20+5)
		s.run(sender, host, "push", file, "--group", "group", "--node", node, "--mode", mode)
		for _, at := range into {
			labtest.WantCopy(s, file, filepath.Join(at, filepath.Base(file)))
		}
	}
	directory := filepath.Join(s.dir, name+"-directory")
	s.file(filepath.Join(filepath.Base(directory), "weights"), 1<<20)
	s.file(filepath.Join(filepath.Base(directory), "below", "empty"), 0)
	s.run(sender, host, "push", directory, "--group", "group", "--node", node)
	for _, at := range into {
		labtest.WantCopy(s, directory, filepath.Join(at, filepath.Base(directory)))
	}
	text := strings.Repeat("a line of a stream\n", 10_000)
	stream := s.stream(sender, host, text, "--name", name+"-stream")
	s.succeed(stream)
	for _, at := range into {
		if got := labtest.Contents(s, filepath.Join(at, name+"-stream"))[""]; string(got) != text {
			s.Errorf("%s: a stream of %d bytes, want %d", at, len(got), len(text))
		}
	}
	s.succeed(s.stream(sender, host, text, "--name", name+"-datagrams", "--datagrams", "--parity", "10+2"))
	for _, at := range into {
		if got := labtest.Contents(s, filepath.Join(at, name+"-datagrams"))[""]; len(got) == 0 {
			s.Errorf("%s: no datagram has come", at)
		}
	}
}

// stream streams text.
func (s *site) stream(sender version, host, text string, flags ...string) *lab.Process {
	s.Helper()
	s.Build = sender.build
	process, err := s.Prepare(s.ctx, s.hosts[host], "services/cli/cmd/groupcast",
		append([]string{"push", "-", "--stream", "--group", "group", "--node", s.hosts[host].Name()}, flags...)...)
	s.must(err)
	process.Stdin = strings.NewReader(text)
	s.must(process.Start())
	return process
}
