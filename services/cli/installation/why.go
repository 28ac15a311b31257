package installation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Where the reasons are known, they and what to do have the words of docs/kubernetes.md, "When something is wrong"; others are told
// in Kubernetes' own. Neither names a pod: what many have is told once.

// whyNoPods says why a workload has fewer pods than it is to have; nothing if it has all.
func (s *State) whyNoPods(workload object, p Part, pods int) (why, next string) {
	refused := s.refused(workload)
	switch {
	case workload.Status.ObservedGeneration < workload.Metadata.Generation:
		return "Kubernetes has not looked at it yet", "wait; if it stays so, the cluster's controllers do not run"
	case workload.Kind == "DaemonSet" && p.Desired == 0:
		return noNode(p.Part, workload.Spec.Template.Spec.NodeSelector)
	case pods >= p.Desired:
		return "", ""
	case strings.Contains(refused, "violates PodSecurity"):
		return "the namespace enforces a pod security standard, and its pods use the nodes' network: " + refused,
			fmt.Sprintf("kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged, or install with --set dataPlane.hostNetwork=false, which needs no more than the restricted standard", s.namespace)
	case strings.Contains(refused, "insufficient quota to match these scopes"):
		return "a quota bounds its priority class in this namespace: " + refused, "set another, or none: " + valuesOf(p.Part, "priorityClassName")
	case refused != "":
		return "its pods are refused: " + refused, "see to what it says: Kubernetes tries again"
	}
	return fmt.Sprintf("Kubernetes has made %d of its %d pods", pods, p.Desired), "wait; kubectl -n " + s.namespace + " describe " + workload.id() + " says more if it stays so"
}

// refused returns with which words pods of a workload were refused. Those of a Deployment are made by its ReplicaSets.
func (s *State) refused(workload object) string {
	message, failed := workload.condition("ReplicaFailure", "True")
	if !failed {
		message = s.said(workload.Kind, workload.Metadata.Name, "FailedCreate")
	}
	if _, why, has := strings.Cut(message, " is forbidden: "); has {
		return why
	}
	return message
}

// whyPod says why a pod is not ready.
func (s *State) whyPod(workload, pod object) (why, next string) {
	if message, waits := pod.condition("PodScheduled", "False"); waits {
		return s.whyNowhere(pod, message)
	}
	if s.away(pod) != "" {
		return s.whyAway(workload, pod)
	}
	if _, waits := s.unbound(pod); waits && pod.Spec.NodeName == "" { // the scheduler has a node for it, and says nothing until there is the volume
		return s.whyNoVolume(pod, "")
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return s.whyNotMade(pod)
	}
	is := troubled(pod)
	switch waits := is.State.Waiting; {
	case pod.Status.Phase == "Failed":
		return "it has failed: " + cmp.Or(pod.Status.Message, pod.Status.Reason, "its container has ended"), "Kubernetes makes another"
	case waits != nil && slices.Contains([]string{"ContainerCreating", "PodInitializing"}, waits.Reason):
		return s.whyNotMade(pod)
	case is.Name != pod.label("component"):
		return s.whyAdded(pod, is)
	case is.State.Running != nil:
		return s.whyUnready(workload, pod)
	case is.lacksImage():
		return s.whyNoImage(workload, pod, is)
	}
	return s.whyEnded(workload, pod, is)
}

// troubled returns the container that keeps a pod from being ready: one that does not run, else one that is not ready, and the chart's
// before those that are added to it. It is the chart's if nothing is wrong with any.
func troubled(pod object) container {
	all := slices.Clone(pod.Status.ContainerStatuses)
	slices.SortStableFunc(all, func(a, b container) int {
		switch own := pod.label("component"); {
		case a.health() != b.health():
			return a.health() - b.health()
		case a.Name == own:
			return -1
		case b.Name == own:
			return 1
		}
		return 0
	})
	return all[0]
}

// whyAdded says what is wrong with a container that is not the chart's. What explains the chart's does not explain it, and their logs say nothing of it.
func (s *State) whyAdded(pod object, is container) (why, next string) {
	its := "its container " + is.Name + ", which is not the chart's, "
	next = s.kubectl("logs -c "+is.Name, pod) + " says more"
	switch {
	case is.State.Running != nil:
		return its + "runs and is not ready", next
	case is.lacksImage():
		return fmt.Sprintf("%slacks its image %s: %s", its, is.Image, is.State.Waiting.Message), "push the image, or name another in " + valuesOf(pod.label("component"), "extraContainers") + ", if the container is from there"
	}
	why, see := is.stands()
	return its + why, cmp.Or(see, next)
}

// whyNowhere says why a pod is on no node.
func (s *State) whyNowhere(pod object, message string) (why, next string) {
	part, on := pod.label("component"), pod.Spec.NodeSelector
	switch {
	case strings.Contains(message, "didn't have free ports"):
		ports := map[string][]string{"agent": {"port", "adminPort"}, "gatherer": {"port", "dataPort", "adminPort"}, "replicator": {"adminPort"}}[part]
		return "its node's ports are taken, as by another release: " + message, fmt.Sprintf("give this release other ones (%s), or install with --set dataPlane.hostNetwork=false", valuesOf(part, ports...))
	case strings.Contains(message, "unbound immediate PersistentVolumeClaims"), strings.Contains(message, "binding volumes"):
		return s.whyNoVolume(pod, message)
	case saysVolumeElsewhere(message) && strings.Contains(message, "unschedulable"):
		return s.whyCordoned(pod)
	case strings.Contains(message, "didn't match Pod's node affinity/selector") && selector(on) != "":
		return noNode(part, on)
	}
	return "no node takes it: " + message, s.kubectl("describe pods", pod) + " shows what it asks for, kubectl describe nodes what they have"
}

// noNode says that no node is one of those on which a part is to run.
func noNode(part string, on map[string]string) (why, next string) {
	if selector(on) == "" {
		return "no node is one on which it may run", "kubectl get nodes; look at " + valuesOf(part, "nodeSelector", "affinity", "tolerations")
	}
	return "no node that it may run on has the labels of its nodeSelector, " + selector(on),
		fmt.Sprintf("kubectl get nodes --show-labels; label nodes, or change the selector: --set %[1]s.nodeSelector.KEY=null takes a label out of it, --set %[1]s.nodeSelector=null nothing", part)
}

// whyNoVolume says why a pod waits for its volume.
func (s *State) whyNoVolume(pod object, message string) (why, next string) {
	value := map[string]string{"manager": "store.storageClass", "gatherer": "gatherer.storage.storageClass"}[pod.label("component")]
	again := fmt.Sprintf("uninstall, %s, and install with --set %s=NAME", s.kubectl("delete pvc", pod), value)
	claim, waits := s.unbound(pod)
	switch class := claim.Spec.StorageClassName; {
	case !waits:
		return "it waits for its volume: " + message, "kubectl -n " + s.namespace + " get pvc,events"
	case class == nil:
		return "no storage class makes its volume: its claim names none, and none is the default", "kubectl get storageclass; make one the default, or " + again
	case *class == "":
		return "its claim is for a volume that is there already, without a storage class, and none fits", "make a PersistentVolume that fits it, or " + again
	default:
		said := s.said("PersistentVolumeClaim", claim.Metadata.Name, "ProvisioningFailed", "FailedBinding", "ExternalProvisioning", "Provisioning")
		return fmt.Sprintf("the storage class %s has made no volume for its claim: %s", *class, cmp.Or(said, "nothing is said of it")),
			"if it stays so: kubectl get storageclass, and see whether the provisioner that it names runs; or " + again
	}
}

// unbound returns a claim of a pod that has no volume yet.
func (s *State) unbound(pod object) (claim object, is bool) {
	return s.claim(pod, func(claim object) bool { return claim.Status.Phase != "Bound" })
}

// claim returns a claim of a pod of which something holds.
func (s *State) claim(pod object, holds func(claim object) bool) (claim object, is bool) {
	for _, o := range s.objects {
		if o.Kind == "PersistentVolumeClaim" && claims(pod, o.Metadata.Name) && holds(o) {
			return o, true
		}
	}
	return object{}, false
}

func claims(pod object, name string) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim.ClaimName == name {
			return true
		}
	}
	return false
}

// whyNotMade says why a pod on a node has no container yet.
func (s *State) whyNotMade(pod object) (why, next string) {
	said := s.said("Pod", pod.Metadata.Name, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
	switch {
	case pod.label("component") == "manager" && strings.Contains(said, `"tls"`):
		return "the Secret that manager.tls.existingSecret names is not there: " + said,
			"make it, or see to its issuer (" + fmt.Sprintf("kubectl -n %s describe certificates", s.namespace) + ", with cert-manager): it starts by itself then"
	case strings.Contains(said, "ca.crt") && s.lacksManagers(pod.label("instance")):
		return "no manager was there yet, and so no certificate of the managers' CA", "see to the manager: it starts by itself then"
	case pod.label("component") == "envoy" && strings.Contains(said, "tls.crt"):
		return "no manager was there yet to issue its certificate", "it starts by itself, up to two minutes after a manager is ready; " + s.kubectl("delete pods", pod) + " has it try at once"
	case said != "":
		return "its volumes or its network are not there: " + said, "see to what it says: it starts by itself then"
	}
	return "its container is being made", "wait; " + s.kubectl("describe pods", pod) + " says more if it stays so"
}

// whyNoImage says why an image is not there.
func (s *State) whyNoImage(workload, pod object, is container) (why, next string) {
	places := "image.registry, image.tag and " + valuesOf(pod.label("component"), "image") + " say"
	if pod.label("component") == "envoy" {
		places = "envoy.image says"
	}
	next = fmt.Sprintf("push the image where %s, or set another value; global.imagePullSecrets, where the registry asks who pulls", places)
	if workload.Metadata.Generation > 1 {
		next += fmt.Sprintf("; helm -n %s rollback %s, if an upgrade named it by mistake", s.namespace, pod.label("instance"))
	}
	if workload.Kind == "StatefulSet" && workload.Spec.PodManagementPolicy == "OrderedReady" {
		next += "; then " + s.kubectl("delete pods", pod) + ", for nothing replaces such a pod before it is ready"
	}
	return fmt.Sprintf("its image %s is not to be had: %s", is.Image, is.State.Waiting.Message), next
}

// whyUnready says why a container that runs is not ready.
func (s *State) whyUnready(workload, pod object) (why, next string) {
	part, look := pod.label("component"), s.kubectl("logs", pod)
	switch {
	case part != "manager" && s.lacksManagers(pod.label("instance")):
		return "it runs and is not ready: no manager is", "see to the manager"
	case part == "manager" && workload.Kind == "Deployment":
		return "it runs and is not ready" + s.complaint(part), "its etcd does not answer, as a rule: see to it, and to store.external; " + look
	case part == "manager" && workload.Spec.Replicas == 1:
		return "it runs and is not ready" + s.complaint(part), look + " says more; where there were three managers, three again: helm upgrade with --set manager.replicas=3"
	}
	return "it runs and is not ready" + s.complaint(part), look + " says more"
}

// whyEnded says why a container does not run.
func (s *State) whyEnded(workload, pod object, is container) (why, next string) {
	next = s.kubectl("logs", pod) + " says more"
	if pod.label("component") == "manager" && workload.Kind == "Deployment" {
		next = "see to the etcd, if it is that, and to store.external; " + next
	}
	why, see := is.stands()
	if see == "" {
		why += s.complaint(pod.label("component"))
	}
	return "its container " + why, cmp.Or(see, next)
}

// complaint returns what the log of a part has complained of last, after a colon: a warning or an error, where its lines are JSON as
// the chart has them, or what it said before there was a log. It is empty where there is none.
func (s *State) complaint(part string) (said string) {
	for line := range strings.Lines(s.logs[part]) {
		var one struct{ Level, Msg, Error string }
		if json.Unmarshal([]byte(line), &one) != nil {
			one.Level, one.Msg = "ERROR", strings.TrimSpace(line)
		}
		if one.Level == "WARN" || one.Level == "ERROR" {
			said = ": " + cmp.Or(one.Error, one.Msg)
		}
	}
	return said
}

// kubectl returns a call for all pods of a part, or all that has their labels.
func (s *State) kubectl(does string, pod object) string {
	return fmt.Sprintf("kubectl -n %s %s -l app.kubernetes.io/instance=%s,app.kubernetes.io/component=%s", s.namespace, does, pod.label("instance"), pod.label("component"))
}

// valuesOf lists values of a part: of agent, port and adminPort are agent.port, agent.adminPort.
func valuesOf(part string, keys ...string) string {
	var all []string
	for _, key := range keys {
		all = append(all, part+"."+key)
	}
	return strings.Join(all, ", ")
}

// selector is what was chosen of nodes: that they run Linux is not.
func selector(labels map[string]string) string {
	var pairs []string
	for key, value := range labels {
		if key != "kubernetes.io/os" {
			pairs = append(pairs, key+"="+value)
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}
