package replicas_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// A LAN in which the sender's interface has lost its address is out of it alone.
func TestSenderHasNoAddressInOneLAN(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 3<<20)
	r.must(r.store.Command("ip", "address", "flush", "dev", "eth1").Run())
	said := r.run(3, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "role=worker")
	for name, want := range map[string]string{"r1": "COMPLETE", "r2": "COMPLETE", "r3": `FAILED\(no_multicast\)`, "r4": `FAILED\(no_multicast\)`} {
		if !matches(said, name+" +rack. +multicast +"+want+" ") {
			t.Errorf("%s is not %s:\n%s", name, want, said)
		}
	}
}

// Replicas that hear the sender and are not heard by it, as behind a firewall of its machine, are those to which multicast does not
// get: session agents carry it there.
func TestSenderHearsNobodyInOneLAN(t *testing.T) {
	r := startRacks(t, link.Shape{}, link.Shape{Delay: time.Millisecond}) // one that is emulated can be cut
	source := r.file("disk.img", 3<<20)
	r.startAgent(r.replicas[0])
	r.must(r.downlinks[1].Cut())
	said := r.run(0, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "role=worker")
	for name, by := range map[string]string{"r1": "multicast", "r2": "multicast", "r3": "agents", "r4": "agents"} {
		if !matches(said, name+" +rack. +"+by+" +COMPLETE ") {
			t.Errorf("%s is not COMPLETE by %s:\n%s", name, by, said)
		}
	}
	for _, one := range r.replicas {
		r.wantCopy(one, source)
	}
}
