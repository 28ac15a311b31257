package manager_test

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/services/manager"
)

// Only managers that share their CA through a Secret know which of them founds a store of their own: others would wait for each other.
func TestClusterNeedsASharedCA(t *testing.T) {
	config := manager.Defaults()
	config.Store.Cluster = manager.ClusterConfig{Self: "m0.example", Seed: "all.example", First: "m0.example"}
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "store.endpoints") {
		t.Errorf("without: %v, want one that names store.endpoints", err)
	}
	config.Kubernetes.CASecret = "groupcast-ca"
	if err := config.Validate(); err != nil {
		t.Errorf("with: %v", err)
	}
}
