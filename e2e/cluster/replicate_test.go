//go:build cluster

package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// "replication by multicast": the program of one node's replicator to those of all others, over the nodes' own network.
func TestLReplicationByMulticast(t *testing.T) {
	gc.keepArtifacts(t)
	gc.replicates(t, false)
}

// replicates replicates a program of one node's replicator to those of all others, by multicast or over agents. Every replica has
// compared what it has; here it is compared once more, on the nodes' disks.
func (r release) replicates(t *testing.T, overAgents bool) {
	t.Helper()
	client, err := sdk.Open(r.operator(t))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	names := nodeNames(t)
	replication, err := client.Replicate(ctx, sdk.ReplicationSpec{
		SourceNode: names[0], SourcePath: "/usr/local/bin/groupcast", TargetPath: "/var/lib/groupcast/replicas/" + r.name, Selector: "*",
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
		output, err := command(time.Minute, "docker", "exec", node, "sh", "-c", "sha256sum /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/data/replicas/"+r.name+"/groupcast")
		if err != nil {
			t.Fatal(err)
		}
		hashes[strings.Fields(output)[0]] = true
	}
	if len(hashes) != 1 {
		t.Errorf("the replicas differ: %v", hashes)
	}
}
