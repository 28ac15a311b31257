//go:build cluster

package cluster

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// small is a release with only a manager and agents.
func small(name string, values ...string) release {
	return release{name: name, namespace: name, values: append([]string{"image.pullPolicy=Never", "envoy.enabled=false,gatherer.enabled=false,replicator.enabled=false"}, values...)}
}

// install installs without waiting, and returns the notes. What it has installed is removed at the end.
func (r release) install(t *testing.T) (notes string) {
	t.Helper()
	notes, err := r.helm(2*time.Minute, append([]string{"install", r.name, chart, "--create-namespace"}, r.sets()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := r.helm(2*time.Minute, "uninstall", r.name); err != nil {
			t.Error(err)
		}
		mustKubectl(t, "delete", "namespace", r.namespace, "--wait=false")
	})
	r.keepArtifacts(t)
	return notes
}

// events returns what has happened to a part of a release.
func (r release) events(t *testing.T) string {
	t.Helper()
	return r.kubectl(t, "get", "events", "-o", `jsonpath={range .items[*]}{.involvedObject.name}: {.message}{"\n"}{end}`)
}

// status asks Kubernetes for the state of the release, by the command and without credentials of ours. The command's
// exit status says it, too.
func (r release) status(t *testing.T) (said string, ready bool) {
	t.Helper()
	groupcast := testprocess.Binary(t, "github.com/groupcast/groupcast/services/cli/cmd/groupcast")
	said, err := command(time.Minute, "env", "KUBECONFIG="+kubeconfig, "GROUPCAST_CONFIG=", groupcast, "status", "--kubernetes", r.namespace)
	const unavailable = 6
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != unavailable) {
		t.Fatal(err)
	}
	return said, err == nil
}

// explained waits until the command says that the release is not ready, and gives the reason in all of these words.
func (r release) explained(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, "groupcast status --kubernetes says "+strings.Join(words, ", "), func() bool {
		said, ready := r.status(t)
		if ready {
			return false
		}
		for _, word := range words {
			if !strings.Contains(said, word) {
				return false
			}
		}
		return true
	})
}

// waitsInVain lets helm wait, as the documents say: if that fails helm prints no notes, but they can be printed afterwards.
func (r release) waitsInVain(t *testing.T, words string) {
	t.Helper()
	if said, err := r.helm(time.Minute, append([]string{"upgrade", r.name, chart, "--wait", "--timeout", "5s"}, r.sets()...)...); err == nil {
		t.Errorf("helm found ready what is not:\n%s", said)
	}
	if notes, err := r.helm(time.Minute, "get", "notes", r.name); err != nil || !strings.Contains(notes, words) {
		t.Errorf("the notes do not say %q: %v:\n%s", words, err, notes)
	}
}

// impossible is a release that a cluster cannot run as it is asked for.
type impossible struct {
	release
	notes, seen string
	explained   []string // by groupcast status --kubernetes: the reason, and what to do
	sign        func(release, *testing.T) string
	prepare     func(*testing.T)
}

// wantExplained wants Kubernetes' own words and the notes together to say what to do, and the command.
func (i impossible) wantExplained(t *testing.T) {
	t.Helper()
	if i.prepare != nil {
		i.prepare(t)
	}
	if notes := i.install(t); !strings.Contains(notes, i.notes) {
		t.Errorf("the notes do not say %q:\n%s", i.notes, notes)
	}
	eventually(t, "the cluster says "+i.seen, func() bool { return strings.Contains(i.sign(i.release, t), i.seen) })
	i.release.explained(t, i.explained...)
}

func TestPWrongForTheCluster(t *testing.T) {
	t.Parallel()
	for _, tt := range []impossible{
		{release: small("nodisk", "agent.enabled=false"), notes: "store.storageClass", seen: "unbound", sign: release.events, prepare: withoutDefaultStorage, explained: []string{"no storage class makes its volume", "make one the default", "store.storageClass=NAME"}},
		{release: small("unlabelled", "agent.port=17410,agent.adminPort=17411,agent.nodeSelector.disk=ssd"), notes: "kubectl get nodes -l disk=ssd", seen: "0", sign: release.asAgents, explained: []string{"daemonset/unlabelled-groupcast-agent: no node that it may run on has the labels of its nodeSelector, disk=ssd"}},
		{release: small("noetcd", "agent.enabled=false", "store.external.endpoints={http://etcd.nowhere.svc:2379}"), notes: "etcd does not answer", seen: "etcd.nowhere.svc", sign: release.asLog, explained: []string{"http://etcd.nowhere.svc:2379", "no etcd answers", "store.external"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.wantExplained(t)
			if tt.name == "noetcd" {
				tt.waitsInVain(t, tt.notes)
			}
		})
	}
}

// Two releases that want the same ports of a node.
func TestPPortsAreTaken(t *testing.T) {
	impossible{
		release: small("ports", "agent.cache.size=64Mi"), notes: "free ports", seen: "free ports", sign: release.events,
		explained: []string{"its node's ports are taken", "agent.port, agent.adminPort"},
	}.wantExplained(t)
}

// A gatherer that could not begin because its image was missing begins once that is corrected: its first pod, which was
// never ready, is replaced.
func TestPGathererIsReplaced(t *testing.T) {
	t.Parallel()
	r := small("stuck", "agent.enabled=false", "store.storageClass=standard", "gatherer.storage.storageClass=standard", "gatherer.enabled=true", "gatherer.image.repository=nowhere", "gatherer.storage.size=1Gi", "dataPlane.hostNetwork=false")
	r.install(t)
	eventually(t, "its pod waits for the image", func() bool { return strings.Contains(r.events(t), "/groupcast/nowhere") })
	r.explained(t, "its image ghcr.io/groupcast/nowhere:dev is not to be had", "gatherer.image")
	r.apply(t, "gatherer.image.repository=groupcast-gatherer")
	eventually(t, "the command says that all is ready", func() bool {
		_, ready := r.status(t)
		return ready
	})
}

// asAgents returns how many agents there are to be.
func (r release) asAgents(t *testing.T) string {
	return r.kubectl(t, "get", "ds/"+r.name+"-groupcast-agent", "-o", "jsonpath={.status.desiredNumberScheduled}")
}

// asLog returns what the managers have said; nothing if they have not said anything yet.
func (r release) asLog(t *testing.T) string {
	output, _ := kubectl("-n", r.namespace, "logs", "-l", "app.kubernetes.io/component=manager", "--tail=-1")
	return output
}

// withoutDefaultStorage leaves no storage class as the default, until the test has ended.
func withoutDefaultStorage(t *testing.T) {
	t.Helper()
	const isDefault = "storageclass.kubernetes.io/is-default-class="
	mustKubectl(t, "annotate", "storageclass", "standard", "--overwrite", isDefault+"false")
	t.Cleanup(func() { mustKubectl(t, "annotate", "storageclass", "standard", "--overwrite", isDefault+"true") })
}
