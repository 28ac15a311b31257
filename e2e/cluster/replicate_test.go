//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// "replication by multicast": a program of one node's replicator goes to those of all others, over the nodes' own network.
func TestLReplicationByMulticast(t *testing.T) {
	gc.keepArtifacts(t)
	gc.replicates(t, false)
}

// Two subnets, with one node in both: the value names them by their networks, and each replicator uses its node's
// address in them.
func TestLReplicationInTwoSubnets(t *testing.T) {
	gc.keepArtifacts(t)
	names := nodeNames(t)
	subnets := []string{subnet(t, "first", names[0], names[1]), subnet(t, "second", names[0], names[2])}
	t.Cleanup(func() { // before the subnets are gone
		if said, err := gc.upgrade(threeManagers); err != nil {
			t.Errorf("%v: %s", err, said)
		}
		gc.kubectl(t, "rollout", "status", "ds/gc-groupcast-replicator", "--timeout=2m")
	})
	gc.apply(t, threeManagers, fmt.Sprintf("replicator.lans={first=%s,second=%s}", subnets[0], subnets[1]))
	for i, replica := range gc.replicates(t, false) {
		if want := []string{"first", "second"}[i]; replica.LAN != want {
			t.Errorf("%s got it on %q, want %q", replica.Name, replica.LAN, want)
		}
	}
}

// subnet puts nodes into another network for the duration of a test, and returns its addresses.
func subnet(t *testing.T, name string, nodes ...string) string {
	t.Helper()
	network := clusterName + "-" + name
	docker := func(args ...string) string {
		said, err := command(time.Minute, "docker", append([]string{"network"}, args...)...)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(said)
	}
	_, _ = command(time.Minute, "docker", "network", "rm", "--force", network) // left over from an earlier run
	docker("create", network)
	t.Cleanup(func() { docker("rm", network) })
	for _, node := range nodes {
		docker("connect", network, node)
		t.Cleanup(func() { docker("disconnect", "--force", network, node) })
	}
	return docker("inspect", "--format", "{{(index .IPAM.Config 0).Subnet}}", network)
}

// replicates replicates a program of one node's replicator to those of all others, by multicast or over agents. Every replica has
// verified its copy; here the copies are compared once more, on the nodes' disks.
func (r release) replicates(t *testing.T, overAgents bool) []sdk.Replica {
	t.Helper()
	client, err := sdk.Open(r.operator(t))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	names, to := nodeNames(t), "replicas/"+filepath.Base(t.Name())
	replication, err := client.Replicate(ctx, sdk.ReplicationSpec{
		SourceNode: names[0], SourcePath: "/usr/local/bin/groupcast", TargetPath: "/var/lib/groupcast/" + to, Selector: "*",
	})
	if err != nil {
		t.Fatal(err)
	}
	for latest, err := range client.WatchReplication(ctx, replication.ID) {
		if err != nil {
			t.Fatal(err)
		}
		replication = latest
	}
	if replication.State != sdk.ReplicationComplete || replication.Complete != nodes-1 {
		t.Fatalf("%s (%s %s): %+v", replication.State, replication.Reason, replication.Detail, replication.Replicas)
	}
	for _, replica := range replication.Replicas {
		if replica.OverAgents != overAgents {
			t.Errorf("%s is fed by agents: %v, want %v", replica.Name, replica.OverAgents, overAgents)
		}
	}
	hashes := make(map[string]bool)
	for _, node := range names[1:] {
		output, err := command(time.Minute, "docker", "exec", node, "sh", "-c", "sha256sum /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/data/"+to+"/groupcast")
		if err != nil {
			t.Fatal(err)
		}
		hashes[strings.Fields(output)[0]] = true
	}
	if len(hashes) != 1 {
		t.Errorf("the replicas differ: %v", hashes)
	}
	return replication.Replicas
}
