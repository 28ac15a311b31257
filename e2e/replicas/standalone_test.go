package replicas_test

import (
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// A standalone server that is told its LAN has a replicator, which sends what is on the server to
// replicators on other machines, and receives what they send.
func TestStandaloneServerReplicates(t *testing.T) {
	l := labtest.New(t, 1)
	lan := l.LAN("lan")
	r := &racks{T: t, dir: t.TempDir(), manager: l.Host("server"), store: &replicator{Host: l.Host("r1")}}
	l.Link(r.manager, lan, link.Shape{})
	l.Link(r.store.Host, lan, link.Shape{})
	labtest.Start(t, l)
	t.Cleanup(r.log)
	disk, err := r.manager.Disk(64 << 20)
	r.must(err)
	file := r.file("disk.img", 5<<20+123)
	r.serving = r.manager.Command(testprocess.Binary(r, commands+"standalone/cmd/groupcast-standalone"), "--data="+r.dir, "--agents-count=0",
		"--gatherer-enabled=false", "--grpc-listen=0.0.0.0:7400", "--admin-listen=", "--replicator-lans=eth0",
		"--replicator-sources="+r.dir, "--replicator-targets="+disk.Inside("replicas"), "--replicator-labels=role=server")
	r.must(r.serving.Start())
	r.await("the server serves", func() bool { return r.command("status").Run() == nil })
	r.start(r.store, "--lans=eth0", "--sources="+filepath.Dir(file))
	r.await("both replicators are online", func() bool {
		list := r.run(0, "replicator", "list")
		return matches(list, "^r1 .* online ") && matches(list, "replicator .* online ")
	})
	if said := r.run(0, "replicate", "replicator:"+file, "--to", r.store.disk.Inside("replicas"), "--on", "r1"); !matches(said, "r1 +lan +multicast +COMPLETE ") {
		t.Errorf("from the server it said:\n%s", said)
	}
	r.wantCopy(r.store, file)
	if said := r.run(0, "replicate", "r1:"+file, "--to", disk.Inside("replicas"), "--on", "role=server"); !matches(said, "replicator +lan +multicast +COMPLETE ") {
		t.Errorf("to the server it said:\n%s", said)
	}
	r.wantCopy(&replicator{Host: r.manager, disk: disk}, file)
}
