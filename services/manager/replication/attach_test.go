package replication

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// What is wrong with a registration is said of the field that it is wrong with.
func TestRegistrationNamesTheField(t *testing.T) {
	long, many := []string{"/" + strings.Repeat("a", maxText)}, make([]string, maxItems+1)
	for _, tt := range []struct {
		field string
		by    func(r *replicav1.Registration, paths []string)
	}{
		{"sources", func(r *replicav1.Registration, paths []string) { r.Sources = paths }},
		{"targets", func(r *replicav1.Registration, paths []string) { r.Targets = paths }},
		{"devices", func(r *replicav1.Registration, paths []string) { r.Devices = paths }},
	} {
		for _, paths := range [][]string{long, many} {
			asked := &replicav1.Registration{Node: "node", Lans: []string{"lan"}}
			tt.by(asked, paths)
			var invalid *ledger.Invalid
			if err := checkRegistration(asked); !errors.As(err, &invalid) || invalid.Violations[0].Field != tt.field {
				t.Errorf("%d %s: %v, want a problem with %s", len(paths), tt.field, err, tt.field)
			}
		}
	}
}

// As many devices as there may be are among the targets beside as many directories.
func TestAsManyTargetsAsThereMayBe(t *testing.T) {
	for more, want := range map[int]bool{0: true, 1: false} {
		devices := slices.Repeat([]string{"/dev/sda"}, maxItems)
		targets := append(slices.Repeat([]string{"/srv"}, maxItems+more), devices...)
		err := checkRegistration(&replicav1.Registration{Node: "node", Lans: []string{"lan"}, Targets: targets, Devices: devices})
		if (err == nil) != want {
			t.Errorf("%d targets: %v", len(targets), err)
		}
	}
}

// A sender waits for those that are online, and not for one that is silent already.
func TestWhoIsHeard(t *testing.T) {
	stream := new(Attachment)
	d := &Desk{started: begin, presences: map[string]*presence{
		"heard":  {attachment: stream, since: begin, heard: after(9)},
		"silent": {attachment: stream, since: begin, heard: after(5)},
		"closed": {since: after(10), heard: after(10)},
	}}
	for name, want := range map[string]bool{"heard": true, "silent": false, "closed": false, "unknown": false} {
		if got := d.isHeard(name, begin.Add(10*time.Second)); got != want {
			t.Errorf("%s is heard: %v", name, got)
		}
	}
}

// Session agents carry it to those that multicast does not reach until it has ended at them: their sender does not wait for these to come back.
func TestToWhomSessionAgentsCarry(t *testing.T) {
	record := &replicav1.Replication{Replicas: []*replicav1.Replica{
		{Name: "a", State: replicav1.ReplicaState_REPLICA_STATE_WAITING, OverAgents: true},
		{Name: "b", State: replicav1.ReplicaState_REPLICA_STATE_FAILED, OverAgents: true},
		{Name: "c", State: replicav1.ReplicaState_REPLICA_STATE_COMPLETE, OverAgents: true},
		{Name: "d", State: replicav1.ReplicaState_REPLICA_STATE_WAITING},
	}}
	if got := overAgents(record); !slices.Equal(got, []string{"a"}) {
		t.Errorf("they carry it to %v", got)
	}
}
