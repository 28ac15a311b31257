package installation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// object is what is looked at of whatever Kubernetes lists: a pod, a claim, a workload, a node or an event.
type object struct {
	Kind     string
	Metadata metadata
	Spec     spec
	Status   status

	// Of an event.
	Type           string
	Reason         string
	Message        string
	InvolvedObject reference
	LastTimestamp  time.Time
	EventTime      time.Time
	Series         struct{ LastObservedTime time.Time }
}

type reference struct{ Kind, Name string }

type metadata struct {
	Name              string
	Generation        int64
	Labels            map[string]string
	Annotations       map[string]string
	DeletionTimestamp *time.Time // when it is to be gone
}

type spec struct {
	Replicas            int    // of a StatefulSet or a Deployment
	PodManagementPolicy string // of a StatefulSet
	Template            struct{ Spec podSpec }
	StorageClassName    *string // of a claim; nil is the default class, where there is one
	podSpec                     // of a pod
}

type podSpec struct {
	NodeName     string
	NodeSelector map[string]string
	Volumes      []struct {
		PersistentVolumeClaim struct{ ClaimName string }
	}
}

type status struct {
	Phase      string
	Reason     string
	Message    string
	Conditions []struct{ Type, Status, Reason, Message string }

	// Of a pod.
	ContainerStatuses []container

	// Of a workload.
	ObservedGeneration     int64
	ReadyReplicas          int
	DesiredNumberScheduled int
	NumberReady            int
}

type container struct {
	Name         string
	Image        string
	Ready        bool
	RestartCount int
	State        state
	LastState    state
}

type state struct {
	Waiting    *struct{ Reason, Message string }
	Running    *struct{}
	Terminated *struct {
		ExitCode int
		Reason   string
		Message  string
	}
}

// health is 0 of a container that does not run, 1 of one that is not ready, and 2 of one that is.
func (c container) health() int {
	switch {
	case c.State.Running == nil:
		return 0
	case !c.Ready:
		return 1
	}
	return 2
}

func (c container) lacksImage() bool {
	return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Reason, "Image")
}

// stands says how a container that does not run stands, and what to do if that is known without its log.
func (c container) stands() (how, next string) {
	for _, one := range []state{c.State, c.LastState} {
		if ended := one.Terminated; ended != nil {
			return fmt.Sprintf("has ended with %d (%s)", ended.ExitCode, ended.Reason), ""
		}
	}
	if waits := c.State.Waiting; waits != nil {
		return fmt.Sprintf("is not made (%s): %s", waits.Reason, waits.Message), "see to what it says: Kubernetes tries again"
	}
	return "does not run", ""
}

// read reads a list as `kubectl get -o json` writes it.
func read(text []byte) ([]object, error) {
	var list struct{ Items []object }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("what kubectl wrote is no list of objects: %w", err)
	}
	return list.Items, nil
}

func (o object) label(name string) string { return o.Metadata.Labels["app.kubernetes.io/"+name] }

// id is how kubectl names an object.
func (o object) id() string { return strings.ToLower(o.Kind) + "/" + o.Metadata.Name }

// condition returns whether a condition is so, and what is said of it.
func (o object) condition(kind, is string) (message string, holds bool) {
	for _, c := range o.Status.Conditions {
		if c.Type == kind && c.Status == is {
			return c.Message, true
		}
	}
	return "", false
}

// at is when an event was seen last.
func (o object) at() time.Time {
	latest := o.LastTimestamp
	for _, other := range []time.Time{o.EventTime, o.Series.LastObservedTime} {
		if other.After(latest) {
			latest = other
		}
	}
	return latest
}
