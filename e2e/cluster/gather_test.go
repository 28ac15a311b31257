//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk/gather"
)

// twoPriorities is a policy for a link of which each of two clients wants all: only their priorities say who has it.
const twoPriorities = "link: 10MB\nrules:\n- {clients: [high], target: 10MB, priority: 9}\n- {clients: [low], target: 10MB, priority: 1}\n"

// wantPriority wants the client with priority to have been done clearly earlier: with equal shares both are done together.
func wantPriority(t *testing.T, high, low time.Time) {
	t.Helper()
	earlier := low.Sub(high)
	t.Logf("high was done %v before low", earlier)
	if earlier < time.Second {
		t.Error("who has priority was not done clearly earlier")
	}
}

// "gathering with two priorities": clients outside the cluster upload through Envoy and the node's
// data port. The one with priority gets more while both are there, and both uploads are complete.
func TestKGatheringWithTwoPriorities(t *testing.T) {
	gc.keepArtifacts(t)
	access := gc.operator(t)
	operator := uploader(t, access, "")
	policy, err := gather.ParsePolicy([]byte(twoPriorities))
	if err != nil {
		t.Fatal(err)
	}
	_, revision, err := operator.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.SetPolicy(t.Context(), policy, revision); err != nil {
		t.Fatal(err)
	}
	ended := make(map[string]chan time.Time)
	for _, name := range []string{"high", "low"} {
		source, _ := random(t, 48*mebibyte)
		client, end := uploader(t, access, name), make(chan time.Time, 1)
		ended[name] = end
		go func() {
			defer close(end)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			uploaded, err := client.Upload(ctx, source, gather.FileOptions{})
			if err != nil || uploaded.Bytes != 48*mebibyte {
				t.Errorf("%s: %+v %v", name, uploaded, err)
			}
			end <- time.Now()
		}()
	}
	wantPriority(t, <-ended["high"], <-ended["low"])
	clients, err := operator.Clients(t.Context())
	if err != nil || len(clients.Clients) < 2 {
		t.Errorf("clients %+v, %v", clients, err)
	}
}

// uploader returns a client of the gatherer that connects through Envoy.
func uploader(t *testing.T, access, name string) *gather.Client {
	t.Helper()
	client, err := gather.Open(t.Context(), access, fmt.Sprintf("%s:%d", nodeAddresses(t)[0], gatheringNodePort), gather.Options{As: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
