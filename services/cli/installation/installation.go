// Package installation says of a release on Kubernetes which of its parts are ready, why others are not, and what
// to do about it, from what the API server tells of its objects and from nothing else: a first installation that does
// not come up has no manager that could be asked.
package installation

import "slices"

// Workloads selects the pods and workloads of all releases.
const Workloads = "app.kubernetes.io/part-of=groupcast"

// components are the parts that a release can have, in the order in which they come up.
var components = []string{"manager", "agent", "gatherer", "replicator", "envoy"}

// Part is a part of a release.
type Part struct {
	Part     string    `json:"part"`
	Release  string    `json:"release"`
	Workload string    `json:"workload"`
	Chart    string    `json:"chart"`
	Ready    int       `json:"ready"`
	Desired  int       `json:"desired"`
	Problems []Problem `json:"problems,omitempty"`
}

// IsReady reports whether all that is to be there is, and nothing else waits.
func (p Part) IsReady() bool { return len(p.Problems) == 0 }

// Problem is why something is not ready.
type Problem struct {
	Of   []string `json:"of"` // as kubectl names them: pods, or the workload
	Why  string   `json:"why"`
	Next string   `json:"next"` // what to do
}

// State is what there is in a namespace.
type State struct {
	namespace string
	objects   []object
	logs      map[string]string // by parts
}

// Read reads lists of what is in a namespace, as `kubectl get -o json` writes them.
func Read(namespace string, lists ...[]byte) (*State, error) {
	s := &State{namespace: namespace, logs: make(map[string]string)}
	for _, text := range lists {
		if err := s.Add(text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add adds a list, as of the cluster's nodes.
func (s *State) Add(list []byte) error {
	objects, err := read(list)
	s.objects = append(s.objects, objects...)
	return err
}

// Releases returns the names of the releases that are there.
func (s *State) Releases() (names []string) {
	for _, o := range s.objects {
		if isWorkload(o) && !slices.Contains(names, o.label("instance")) {
			names = append(names, o.label("instance"))
		}
	}
	slices.Sort(names)
	return names
}

// Kept returns the claims of a release, or of all, in which managers and gatherers keep what they store: they stay when a release is
// uninstalled.
func (s *State) Kept(release string) (claims []string) {
	for _, o := range s.objects {
		isOurs := o.label("name") == "groupcast" && slices.Contains(components, o.label("component")) // another product may have a manager, too
		if o.Kind == "PersistentVolumeClaim" && isOurs && (release == "" || o.label("instance") == release) {
			claims = append(claims, o.Metadata.Name)
		}
	}
	slices.Sort(claims)
	return claims
}

// Unwell returns one pod of each part of a release that runs without being ready, or does not go on running: what is wrong is in
// its log alone, which cannot be had where its node is away.
func (s *State) Unwell(release string) (pods map[string]string) {
	pods = make(map[string]string)
	for _, part := range components {
		for _, pod := range s.podsOf(release, part) {
			if !isReady(pod) && hasRun(pod) && s.away(pod) == "" {
				pods[part] = pod.Metadata.Name
			}
		}
	}
	return pods
}

// AddLog adds what a pod of a part has written.
func (s *State) AddLog(part, text string) { s.logs[part] = text }

// Parts returns the parts of a release.
func (s *State) Parts(release string) (parts []Part) {
	for _, component := range components {
		for _, o := range s.objects {
			if isWorkload(o) && o.label("instance") == release && o.label("component") == component {
				parts = append(parts, s.part(o))
			}
		}
	}
	return parts
}

func isWorkload(o object) bool {
	return slices.Contains([]string{"DaemonSet", "StatefulSet", "Deployment"}, o.Kind) && slices.Contains(components, o.label("component"))
}

// part says how one workload stands.
func (s *State) part(workload object) Part {
	p := Part{
		Part: workload.label("component"), Release: workload.label("instance"), Workload: workload.id(), Chart: workload.Metadata.Labels["helm.sh/chart"],
		Ready: workload.Status.ReadyReplicas + workload.Status.NumberReady, Desired: workload.Spec.Replicas + workload.Status.DesiredNumberScheduled,
	}
	pods := s.podsOf(p.Release, p.Part)
	for _, pod := range pods {
		if isReady(pod) || pod.Status.Phase == "Failed" && p.Ready >= p.Desired { // one that was evicted stays when another has its place
			continue
		}
		why, next := s.whyPod(workload, pod)
		p.add(pod.id(), why, next)
	}
	lost := s.lost(workload)
	for _, pod := range lost {
		why, next := whyLost(pod)
		p.add(pod.id(), why, next)
	}
	if why, next := s.whyNoPods(workload, p, len(pods)+len(lost)); why != "" {
		p.add(p.Workload, why, next)
	}
	return p
}

// add notes a problem; several pods with the same are one.
func (p *Part) add(of, why, next string) {
	for i, known := range p.Problems {
		if known.Why == why && known.Next == next {
			p.Problems[i].Of = append(known.Of, of)
			return
		}
	}
	p.Problems = append(p.Problems, Problem{[]string{of}, why, next})
}

// podsOf returns the pods of a part, but those that are about to end.
func (s *State) podsOf(release, component string) (pods []object) {
	for _, o := range s.objects {
		if isPodOf(o, release, component) && o.Metadata.DeletionTimestamp == nil {
			pods = append(pods, o)
		}
	}
	return pods
}

func isPodOf(o object, release, component string) bool {
	return o.Kind == "Pod" && o.label("instance") == release && o.label("component") == component
}

func isReady(pod object) bool {
	_, ready := pod.condition("Ready", "True")
	return ready
}

func hasRun(pod object) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c container) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastState.Terminated != nil
	})
}

// said returns what was said last of an object for one of some reasons; nothing if there is no such event, which Kubernetes keeps
// for an hour.
func (s *State) said(kind, name string, reasons ...string) string {
	var last object
	for _, o := range s.objects {
		of := o.InvolvedObject
		if o.Kind == "Event" && of.Kind == kind && of.Name == name && slices.Contains(reasons, o.Reason) && !o.at().Before(last.at()) {
			last = o
		}
	}
	return last.Message
}

// lacksManagers reports whether a release has no manager that is ready: others wait for one then, and nothing is wrong with them.
func (s *State) lacksManagers(release string) bool {
	return !slices.ContainsFunc(s.podsOf(release, "manager"), isReady)
}
