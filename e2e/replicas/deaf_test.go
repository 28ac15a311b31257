package replicas_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// If the sender's interface in one LAN has lost its address, only that LAN is left out.
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

// Replicas that hear the sender but are not heard by it, for instance because of a firewall, count as not reached by multicast:
// session agents carry the object there.
func TestSenderHearsNobodyInOneLAN(t *testing.T) {
	r := startRacks(t, link.Shape{}, link.Shape{Delay: time.Millisecond}) // only an emulated link can be cut
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
