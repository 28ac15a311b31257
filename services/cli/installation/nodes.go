package installation

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// selectedNode is the annotation of a claim that names the node for which its volume was made.
const selectedNode = "volume.kubernetes.io/selected-node"

// overdue is how long after its time a pod is still there that nobody ends, for its node says nothing.
const overdue = time.Minute

// away returns what is wrong with the node of a pod, if that is not ready; nothing of one that is not known.
func (s *State) away(pod object) string {
	for _, o := range s.objects {
		if o.Kind != "Node" || o.Metadata.Name != pod.Spec.NodeName {
			continue
		}
		for _, is := range []string{"Unknown", "False"} {
			if message, holds := o.condition("Ready", is); holds {
				return fmt.Sprintf("its node %s is not ready: %s", o.Metadata.Name, message)
			}
		}
	}
	return ""
}

// lost returns the pods of a StatefulSet that were to have ended long ago. Kubernetes makes no others in their place, for theirs may run still;
// in place of all other pods it does.
func (s *State) lost(workload object) (pods []object) {
	for _, o := range s.objects {
		ends := o.Metadata.DeletionTimestamp
		if workload.Kind == "StatefulSet" && isPodOf(o, workload.label("instance"), workload.label("component")) && ends != nil && time.Since(*ends) > overdue {
			pods = append(pods, o)
		}
	}
	return pods
}

// whyLost says why a pod is not ended.
func whyLost(pod object) (why, next string) {
	return fmt.Sprintf("it was to end, and its node %s does not say that it has: Kubernetes makes no other in its place, for it may run there still", pod.Spec.NodeName),
		elsewhere(pod.Spec.NodeName)
}

// whyAway says what to do about a pod whose node is away.
func (s *State) whyAway(workload, pod object) (why, next string) {
	why, node := s.away(pod), pod.Spec.NodeName
	switch workload.Kind {
	case "DaemonSet":
		return why, fmt.Sprintf("see to the node: it goes on when that is back; kubectl delete node %s, if it never is", node)
	case "StatefulSet":
		return why, elsewhere(node)
	}
	return why, "see to the node; Kubernetes makes another pod after five minutes"
}

// elsewhere is how a pod with a volume comes to another node.
func elsewhere(node string) string {
	return fmt.Sprintf("see to the node; if it is off for certain, kubectl taint node %[1]s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute has the pod elsewhere, with its volume where that is no disk of the node's; "+
		"before the node is on again, kubectl taint node %[1]s node.kubernetes.io/out-of-service-", node)
}

// saysVolumeElsewhere reports whether the scheduler says that nodes do not get at the volume of a pod: Kubernetes 1.34 has other words than earlier ones.
func saysVolumeElsewhere(message string) bool {
	return strings.Contains(message, "PersistentVolume's node affinity") || strings.Contains(message, "volume node affinity conflict")
}

// whyCordoned says why a pod waits for a node that has its volume and takes no pods.
func (s *State) whyCordoned(pod object) (why, next string) {
	claim, _ := s.claim(pod, func(claim object) bool { return claim.Metadata.Annotations[selectedNode] != "" })
	node := claim.Metadata.Annotations[selectedNode]
	return fmt.Sprintf("its volume is at %s, which is cordoned, as for a drain", cmp.Or(node, "a node")),
		fmt.Sprintf("kubectl uncordon %s: it starts by itself then", cmp.Or(node, "NODE"))
}
