package installation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded is what a real API server said of a release that does not come up, cut to what is looked at and what is beside it.
func recorded(t *testing.T, name string) *State {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	state, err := Read(name, text)
	if err != nil {
		t.Fatal(err)
	}
	if releases := state.Releases(); !slices.Equal(releases, []string{name}) {
		t.Fatalf("%s has the releases %v", name, releases)
	}
	for part := range state.Unwell(name) {
		log, err := os.ReadFile(filepath.Join("testdata", name+".log"))
		if err != nil {
			t.Fatalf("the log of the %s is asked for: %v", part, err)
		}
		state.AddLog(part, string(log))
	}
	return state
}

// want is what is to be said of one part: nothing but its numbers where it is ready.
type want struct {
	part           string
	ready, desired int
	of             int    // how many pods, or workloads, have the problem
	why, next      string // what both begin with, or have in them after a *
}

func (w want) check(t *testing.T, got Part) {
	t.Helper()
	if got.Part != w.part || got.Ready != w.ready || got.Desired != w.desired || got.IsReady() != (w.why == "") {
		t.Errorf("got %+v, want %+v", got, w)
		return
	}
	for _, p := range got.Problems {
		if len(got.Problems) != 1 || len(p.Of) != w.of || !is(p.Why, w.why) || !is(p.Next, w.next) {
			t.Errorf("%s: got %+v, want %+v", w.part, got.Problems, w)
		}
	}
}

func is(text, wanted string) bool {
	if within, has := strings.CutPrefix(wanted, "*"); has {
		return strings.Contains(text, within)
	}
	return strings.HasPrefix(text, wanted)
}

const (
	noDefault  = "no storage class makes its volume: its claim names none, and none is the default"
	makeOne    = "kubectl get storageclass; make one the default, or uninstall, "
	noCA       = "no manager was there yet, and so no certificate of the managers' CA"
	seeTo      = "see to the manager: it starts by itself then"
	violates   = `the namespace enforces a pod security standard, and its pods use the nodes' network: violates PodSecurity "restricted:latest": host namespaces`
	label      = "kubectl label --overwrite namespace refused pod-security.kubernetes.io/enforce=privileged, or install with --set dataPlane.hostNetwork=false"
	overQuota  = "its pods are refused: exceeded quota"
	triesAgain = "see to what it says"
)

// What a real API server says of each kind of trouble is told in words, with what to do. Several pods with one trouble have it once.
func TestWhyItDoesNotComeUp(t *testing.T) {
	for name, parts := range map[string][]want{
		"nodisk": { // without a default StorageClass
			{"manager", 0, 1, 1, noDefault, makeOne + "kubectl -n nodisk delete pvc -l app.kubernetes.io/instance=nodisk,app.kubernetes.io/component=manager, and install with --set store.storageClass=NAME"},
			{"agent", 0, 3, 3, noCA, seeTo},
			{"gatherer", 0, 1, 1, noDefault, "*--set gatherer.storage.storageClass=NAME"},
			{"replicator", 0, 3, 3, noCA, seeTo},
			{"envoy", 0, 1, 1, "no manager was there yet to issue its certificate", "it starts by itself, up to two minutes after a manager is ready"},
		},
		"class": { // with one that there is not, and with "-"
			{"manager", 0, 1, 1, `the storage class nowhere has made no volume for its claim: storageclass.storage.k8s.io "nowhere" not found`, "*--set store.storageClass=NAME"},
			{"gatherer", 0, 1, 1, "its claim is for a volume that is there already, without a storage class, and none fits", "make a PersistentVolume"},
		},
		"ports": { // beside another release
			{"manager", 1, 1, 0, "", ""},
			{"agent", 0, 3, 3, "its node's ports are taken, as by another release: ", "give this release other ones (agent.port, agent.adminPort)"},
		},
		"unlabelled": { // with nodeSelectors that no node fits
			{"manager", 1, 1, 0, "", ""},
			{"agent", 0, 0, 1, "no node that it may run on has the labels of its nodeSelector, disk=ssd", "kubectl get nodes --show-labels; label nodes, or change the selector: --set agent.nodeSelector.KEY=null"},
			{"gatherer", 0, 1, 1, "no node that it may run on has the labels of its nodeSelector, disk=hdd,rack=seven", "*--set gatherer.nodeSelector=null"},
			{"replicator", 0, 0, 1, "no node is one on which it may run", "kubectl get nodes; look at replicator.nodeSelector, replicator.affinity, replicator.tolerations"}, // none was chosen by label
		},
		"refused": { // in a namespace that enforces the restricted standard: there are no pods
			{"manager", 1, 1, 0, "", ""},
			{"agent", 0, 3, 1, violates, label},
			{"gatherer", 0, 1, 1, violates, label},
			{"replicator", 0, 3, 1, violates, label},
			{"envoy", 1, 1, 0, "", ""},
		},
		"quota": {
			{"manager", 0, 1, 1, overQuota, triesAgain},
			{"envoy", 0, 1, 1, overQuota, triesAgain},
		},
		"noimage": {
			{"manager", 0, 1, 1, "*its image ghcr.io/groupcast/groupcast-manager:nowhere is not to be had: Back-off pulling image", "push the image where image.registry, image.tag and manager.image say"},
			{"gatherer", 0, 1, 1, noCA, seeTo},
		},
		"noetcd": { // with the name of an etcd that there is not
			{"manager", 0, 1, 1, "its container has ended with 1 (Error): open store [http://etcd.nowhere.svc:2379]: no etcd answers within 10s", "see to the etcd, if it is that, and to store.external"},
		},
		"alone": { // one of three managers
			{"manager", 0, 1, 1, "it runs and is not ready: look for the leader: the manager's store does not answer", "*three again: helm upgrade with --set manager.replicas=3"},
			{"agent", 3, 3, 0, "", ""},
		},
		"crash": { // with a setting that is none
			{"manager", 0, 1, 1, `its container has ended with 2 (Error): groupcast-manager: GROUPCAST_STOP_WAIT="nonsense"`, "kubectl -n crash logs"},
		},
		"ready": {
			{"manager", 3, 3, 0, "", ""},
			{"agent", 3, 3, 0, "", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := recorded(t, name).Parts(name)
			if len(got) != len(parts) {
				t.Fatalf("got %d parts: %+v", len(got), got)
			}
			for i, w := range parts {
				w.check(t, got[i])
			}
		})
	}
}

// changed has a recorded state be another one.
func changed(t *testing.T, name string, change func(o *object)) []Part {
	t.Helper()
	state := recorded(t, name)
	for i := range state.objects {
		change(&state.objects[i])
	}
	return state.Parts(name)
}

// An external etcd that goes away when managers run already leaves them running.
func TestEtcdGoesAway(t *testing.T) {
	got := changed(t, "alone", func(o *object) {
		if o.label("component") == "manager" && o.Kind == "StatefulSet" {
			o.Kind = "Deployment"
		}
	})
	want{"manager", 0, 1, 1, "it runs and is not ready: look for the leader: the manager's store does not answer", "its etcd does not answer, as a rule: see to it, and to store.external"}.check(t, got[0])
}

// A gatherer that a chart before 0.2 has made is replaced by nobody before it is ready.
func TestPodThatStays(t *testing.T) {
	got := changed(t, "noimage", func(o *object) {
		if o.Kind == "StatefulSet" {
			o.Spec.PodManagementPolicy = "OrderedReady"
		}
	})
	want{"manager", 0, 1, 1, "its image ", "*kubectl -n noimage delete pods -l app.kubernetes.io/instance=noimage,app.kubernetes.io/component=manager, for nothing replaces"}.check(t, got[0])
}

// Whoever runs and waits for managers has nothing wrong; when there is one, it has.
func TestOthersWaitForManagers(t *testing.T) {
	unready := func(part string) func(o *object) {
		return func(o *object) {
			for i, c := range o.Status.Conditions {
				if o.Kind == "Pod" && o.label("component") == part && c.Type == "Ready" {
					o.Status.Conditions[i].Status = "False"
				}
			}
		}
	}
	got := changed(t, "alone", unready("agent"))
	want{"agent", 3, 3, 3, "it runs and is not ready: no manager is", "see to the manager"}.check(t, got[1])
	state := recorded(t, "ready")
	for i := range state.objects {
		unready("agent")(&state.objects[i])
	}
	state.AddLog("agent", `{"level":"WARN","msg":"not connected to a manager; trying again","error":"no answer in time"}`+"\n"+`{"level":"INFO","msg":"trying"}`+"\n")
	want{"agent", 3, 3, 3, "it runs and is not ready: no answer in time", "kubectl -n ready logs"}.check(t, state.Parts("ready")[1])
}

// A quota that bounds a priority class alone is told apart, and a pod that was evicted before another has its place says so. Such a quota takes an
// API server that is configured for it, so its words are put in.
func TestRefusedAndEvicted(t *testing.T) {
	const scopes = `pods "x" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical system-cluster-critical]}]`
	got := changed(t, "quota", func(o *object) {
		if o.Reason == "FailedCreate" {
			o.Message = scopes
		}
	})
	want{"manager", 0, 1, 1, "a quota bounds its priority class in this namespace: insufficient quota", "set another, or none: manager.priorityClassName"}.check(t, got[0])
	got = changed(t, "alone", func(o *object) {
		if o.Kind == "Pod" && o.label("component") == "manager" {
			o.Status.Phase, o.Status.Message = "Failed", "The node was low on resource: memory."
		}
	})
	want{"manager", 0, 1, 1, "it has failed: The node was low on resource: memory.", "Kubernetes makes another"}.check(t, got[0])
}

// What is about to end, or was evicted and has been replaced, is no trouble; a workload that Kubernetes has not looked at is.
func TestPodsThatDoNotCount(t *testing.T) {
	ended := time.Now()
	got := changed(t, "alone", func(o *object) {
		if o.Kind == "Pod" && o.label("component") == "manager" {
			o.Metadata.DeletionTimestamp = &ended
		}
		if o.Kind == "DaemonSet" {
			o.Metadata.Generation++
		}
		if o.Kind == "Pod" && o.label("component") == "agent" {
			o.Status.Phase, o.Status.Conditions = "Failed", nil
		}
	})
	want{"manager", 0, 1, 1, "Kubernetes has made 0 of its 1 pods", "wait; kubectl -n alone describe statefulset/alone-groupcast-manager"}.check(t, got[0])
	want{"agent", 3, 3, 1, "Kubernetes has not looked at it yet", "wait"}.check(t, got[1])
}

// A pod with a volume whose node is gone stays, and no other is made, until somebody says that the node is off: neither waiting nor its log helps.
func TestPodsOfLostNodes(t *testing.T) {
	due := time.Now().Add(-time.Hour)
	got := changed(t, "alone", func(o *object) {
		if o.Kind == "Pod" && o.label("component") == "manager" {
			o.Metadata.DeletionTimestamp = &due
		}
	})
	node := recorded(t, "alone").podsOf("alone", "manager")[0].Spec.NodeName
	want{"manager", 0, 1, 1, "it was to end, and its node " + node + " does not say that it has", "*kubectl taint node " + node + " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}.check(t, got[0])
	if of := got[0].Problems[0].Of[0]; of != "pod/alone-groupcast-manager-0" {
		t.Errorf("it is told of %s", of)
	}
}

// Of what runs on a node that is not ready, that is told, as long as nobody looks at a log that cannot be had.
func TestNodesThatAreAway(t *testing.T) {
	state := recorded(t, "ready")
	node := state.podsOf("ready", "manager")[0].Spec.NodeName
	for i, o := range state.objects {
		for j, c := range o.Status.Conditions {
			if o.Kind == "Pod" && o.Spec.NodeName == node && c.Type == "Ready" {
				state.objects[i].Status.Conditions[j].Status = "False"
			}
		}
		if o.Kind == "DaemonSet" || o.Kind == "StatefulSet" {
			state.objects[i].Status.NumberReady, state.objects[i].Status.ReadyReplicas = o.Status.NumberReady*2/3, o.Status.ReadyReplicas*2/3
		}
	}
	const list = `{"items": [{"kind": "Node", "metadata": {"name": "NODE"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]}}]}`
	if err := state.Add([]byte(strings.ReplaceAll(list, "NODE", node))); err != nil {
		t.Fatal(err)
	}
	parts := state.Parts("ready")
	want{"manager", 2, 3, 1, "its node " + node + " is not ready: Kubelet stopped posting node status.", "see to the node; if it is off for certain, kubectl taint"}.check(t, parts[0])
	want{"agent", 2, 3, 1, "its node " + node + " is not ready: Kubelet stopped posting node status.", "see to the node: it goes on when that is back"}.check(t, parts[1])
	if unwell := state.Unwell("ready"); len(unwell) > 0 {
		t.Errorf("logs are asked for of %v", unwell)
	}
}

// waitsForVolume has the pod of a manager be one that the scheduler has put nowhere, with a word or without one.
func waitsForVolume(o *object, said string) {
	if o.Kind != "Pod" || o.label("component") != "manager" {
		return
	}
	o.Status.Conditions = o.Status.Conditions[:0]
	if said != "" {
		o.Status.Conditions = append(o.Status.Conditions, struct{ Type, Status, Reason, Message string }{"PodScheduled", "False", "Unschedulable", said})
	}
}

// Where a storage class binds at the first consumer, the scheduler has a node and waits for the volume without a word of the pod, for ten minutes: it is
// the claim of which something is said.
func TestVolumesOfTheFirstConsumer(t *testing.T) {
	for _, said := range []string{"", `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`} {
		got := changed(t, "class", func(o *object) { waitsForVolume(o, said) })
		want{"manager", 0, 1, 1, `the storage class nowhere has made no volume for its claim: storageclass.storage.k8s.io "nowhere" not found`, "if it stays so: kubectl get storageclass"}.check(t, got[0])
	}
	got := changed(t, "class", func(o *object) {
		waitsForVolume(o, "")
		if o.Kind == "PersistentVolumeClaim" {
			o.Status.Phase = "Bound"
		}
	})
	want{"manager", 0, 1, 1, "its container is being made", "wait"}.check(t, got[0])
}

// A manager whose certificate another issuer is to make waits for its Secret, and it is said what names that and who makes it.
func TestSecretOfAnotherIssuer(t *testing.T) {
	const said = `MountVolume.SetUp failed for volume "tls" : secret "groupcast-managers" not found`
	manager := ""
	got := changed(t, "class", func(o *object) {
		waitsForVolume(o, "")
		switch {
		case o.Kind == "Pod" && o.label("component") == "manager":
			manager = o.Metadata.Name
		case o.Kind == "PersistentVolumeClaim":
			o.Status.Phase = "Bound"
		case o.Kind == "Event":
			o.InvolvedObject.Kind, o.InvolvedObject.Name, o.Reason, o.Message = "Pod", manager, "FailedMount", said
		}
	})
	want{"manager", 0, 1, 1, "the Secret that manager.tls.existingSecret names is not there: " + said, "make it, or see to its issuer"}.check(t, got[0])
}

// What runs on a volume of a node that is drained waits for that node, whatever else the scheduler says of others.
func TestVolumesOfCordonedNodes(t *testing.T) {
	for _, affinity := range []string{"didn't match PersistentVolume's node affinity", "had volume node affinity conflict"} {
		got := changed(t, "class", func(o *object) {
			waitsForVolume(o, "0/3 nodes are available: 1 node(s) "+affinity+", 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.")
			if o.Kind == "PersistentVolumeClaim" {
				o.Status.Phase, o.Metadata.Annotations = "Bound", map[string]string{selectedNode: "worker2"}
			}
		})
		want{"manager", 0, 1, 1, "its volume is at worker2, which is cordoned, as for a drain", "kubectl uncordon worker2: it starts by itself then"}.check(t, got[0])
	}
}

// An image that an upgrade has named is not to be had: that can be taken back. Envoy's is named by itself.
func TestImagesThatAreNotThere(t *testing.T) {
	got := changed(t, "noimage", func(o *object) {
		if o.Kind == "StatefulSet" {
			o.Metadata.Generation, o.Status.ObservedGeneration = 2, 2
		}
	})
	want{"manager", 0, 1, 1, "its image ", "*helm -n noimage rollback noimage, if an upgrade named it by mistake"}.check(t, got[0])
	got = changed(t, "noimage", func(o *object) {
		if o.label("component") == "manager" {
			o.Metadata.Labels["app.kubernetes.io/component"] = "envoy"
			for i := range o.Status.ContainerStatuses {
				o.Status.ContainerStatuses[i].Name = "envoy"
			}
		}
	})
	want{"envoy", 0, 1, 1, "its image ", "push the image where envoy.image says, or set another value"}.check(t, got[1])
}

// A pod may have containers that the user has added. The one that does not run is the trouble, wherever it stands.
func TestContainersBesideTheCharts(t *testing.T) {
	got := changed(t, "noimage", func(o *object) {
		if len(o.Status.ContainerStatuses) > 0 {
			o.Status.ContainerStatuses = append([]container{running("beside", true)}, o.Status.ContainerStatuses...)
		}
	})
	want{"manager", 0, 1, 1, "its image ", "*image.tag"}.check(t, got[0])
}

// Of a container that the user has added, none of the chart's reasons and steps is told, nor what the log of the chart's says.
func TestTheUsersContainers(t *testing.T) {
	const logs = "kubectl -n alone logs -c shipper -l app.kubernetes.io/instance=alone,app.kubernetes.io/component=manager"
	for name, tt := range map[string]struct {
		shipper   container
		why, next string
	}{
		"no image": {waiting("shipper", "ErrImagePull", "not found"), "its container shipper, which is not the chart's, lacks its image shipper:1: not found", "push the image, or name another in manager.extraContainers"},
		"ended":    {ended("shipper", 1), "its container shipper, which is not the chart's, has ended with 1 (Error)", logs},
		"unready":  {running("shipper", false), "its container shipper, which is not the chart's, runs and is not ready", logs},
		"not made": {waiting("shipper", "CreateContainerConfigError", "no secret"), "its container shipper, which is not the chart's, is not made (CreateContainerConfigError): no secret", "see to what it says"},
	} {
		got := changed(t, "alone", func(o *object) {
			if o.Kind == "Pod" && o.label("component") == "manager" {
				o.Status.ContainerStatuses = []container{tt.shipper, running("manager", true)}
			}
		})
		want{"manager", 0, 1, 1, tt.why, tt.next}.check(t, got[0])
		for _, p := range got[0].Problems {
			if strings.Contains(p.Why, "the leader") || strings.Contains(p.Next, "image.tag") || strings.Contains(p.Next, "three") {
				t.Errorf("%s: what is the manager's is told of it: %+v", name, p)
			}
		}
	}
}

// Where the chart's container is not ready either, it is the one that is told of.
func TestTheChartsContainerFirst(t *testing.T) {
	got := changed(t, "alone", func(o *object) {
		if o.Kind == "Pod" && o.label("component") == "manager" {
			o.Status.ContainerStatuses = []container{running("shipper", false), running("manager", false)}
		}
	})
	want{"manager", 0, 1, 1, "it runs and is not ready: look for the leader", "*three again"}.check(t, got[0])
}

func running(name string, ready bool) container {
	c := container{Name: name, Image: name + ":1", Ready: ready}
	c.State.Running = new(struct{})
	return c
}

func waiting(name, reason, message string) container {
	c := container{Name: name, Image: name + ":1"}
	c.State.Waiting = &struct{ Reason, Message string }{reason, message}
	return c
}

func ended(name string, code int) container {
	c := waiting(name, "CrashLoopBackOff", "")
	c.LastState.Terminated = &struct {
		ExitCode        int
		Reason, Message string
	}{code, "Error", ""}
	return c
}
