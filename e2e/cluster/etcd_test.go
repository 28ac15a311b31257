//go:build cluster

package cluster

import (
	"fmt"
	"testing"
	"time"
)

// "Deployment with external etcd": two managers that keep nothing use the etcd of a cluster. There is a delivery, and another
// one after both have been replaced.
func TestQExternalEtcd(t *testing.T) {
	t.Parallel()
	r := small("external", "manager.replicas=2", "store.external.endpoints={http://etcd.external.svc:2379}",
		"dataPlane.hostNetwork=false", "agent.cache.size=64Mi", fmt.Sprintf("tests.agents=%d", nodes))
	mustKubectl(t, "create", "namespace", r.namespace)
	t.Cleanup(func() { mustKubectl(t, "delete", "namespace", r.namespace, "--wait=false") })
	r.keepArtifacts(t)
	image := mustKubectl(t, "-n", "kube-system", "get", "pod", "-l", "component=etcd", "-o", "jsonpath={.items[0].spec.containers[0].image}")
	r.kubectl(t, "run", "etcd", "--image="+image, "--image-pull-policy=Never", "--port=2379", "--expose", "--command", "--",
		"etcd", "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://etcd.external.svc:2379", "--data-dir=/tmp/etcd")
	r.kubectl(t, "wait", "--for=condition=Ready", "pod/etcd", "--timeout=100s")
	r.apply(t)
	r.check(t)
	r.kubectl(t, "rollout", "restart", "deploy/external-groupcast-manager")
	r.kubectl(t, "rollout", "status", "deploy/external-groupcast-manager", "--timeout=100s")
	r.check(t)
	if _, err := r.helm(3*time.Minute, "uninstall", r.name, "--wait"); err != nil {
		t.Fatal(err)
	}
	if rights := r.rights(t); len(rights) > 0 {
		t.Errorf("uninstalled, rights in all of the cluster are left: %v", rights)
	}
	if len(r.secret(t, "external-groupcast-ca")["ca.key"]) == 0 {
		t.Error("the CA that the store belongs to is gone")
	}
}
