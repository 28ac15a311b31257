package versions_test

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/sdk"
)

// An upgrade in the order given in docs/UPGRADE.md, and the way back, happen while a delivery and an upload are running. Both are
// complete at the end, and so is everything that is begun between two steps.
func TestUpgradeAndTheWayBack(t *testing.T) {
	s := begin(t, earlier, "a", "b", "store")
	running := map[string]*lab.Process{"a": s.agent(earlier, "a"), "b": s.agent(earlier, "b"), "store": s.gatherer(earlier, "store")}
	into := s.members("a", "b")
	for i, v := range []version{today, earlier} {
		file, results := s.file("model-of-"+v.name, 24<<20), s.file("results-of-"+v.name, 24<<20)
		push := s.start(versions[i], "a", "push", file, "--group", "group", "--node", s.hosts["a"].Name(), "--rate", "3MB")
		upload := s.start(versions[i], "b", "upload", results, "--to", s.hosts["store"].At(fleet.GathererPort), "--as", "client")
		s.await("the delivery has begun", func() bool {
			list, err := s.Client.Deliveries(s.ctx, "group")
			return err == nil && slices.ContainsFunc(list, func(d sdk.Delivery) bool { return d.Name == filepath.Base(file) && d.SentBytes > 0 })
		})
		s.Build = v.build
		s.must(s.RestartManager(s.ctx))
		s.small(v.name+"-after-managers", into)
		for _, host := range []string{"a", "b"} {
			s.stop(running[host])
			running[host] = s.agent(v, host)
			s.small(v.name+"-after-"+host, into)
		}
		s.stop(running["store"])
		running["store"] = s.gatherer(v, "store")
		s.succeed(push)
		s.succeed(upload)
		for _, at := range into {
			labtest.WantCopy(s, file, filepath.Join(at, filepath.Base(file)))
		}
		labtest.WantCopy(s, results, filepath.Join(s.Gathered(s.hosts["store"]), "client", filepath.Base(results)))
	}
}

// small makes a small delivery with the commands of both versions.
func (s *site) small(name string, into []string) {
	s.Helper()
	for _, sender := range versions {
		file := s.file(name+"-by-"+sender.name, 1<<20)
		said := s.run(sender, "b", "push", file, "--group", "group", "--node", s.hosts["b"].Name())
		if strings.Count(said, "COMPLETE") < len(into) {
			s.Errorf("not all of %d members are complete:\n%s", len(into), said)
		}
		for _, at := range into {
			labtest.WantCopy(s, file, filepath.Join(at, filepath.Base(file)))
		}
	}
}

// stop asks a service to stop.
func (s *site) stop(process *lab.Process) {
	s.Helper()
	s.must(process.Signal(syscall.SIGTERM))
	s.succeed(process)
}
