package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// The source is NODE:PATH, or with --from a path alone, whatever is in it.
func TestSourceSaysWhereItIs(t *testing.T) {
	for _, tt := range []struct {
		from, source string
		node, path   string // empty is refused
	}{
		{"", "store-1:/srv/disk.img", "store-1", "/srv/disk.img"},
		{"", "store-1:/srv/a:b", "store-1", "/srv/a:b"},
		{"", "store-1:disk.img", "store-1", "disk.img"}, // the manager says what is wrong with it
		{"store-1", "/srv/disk.img", "store-1", "/srv/disk.img"},
		{"store-1", "/srv/a:b", "store-1", "/srv/a:b"},
		{"", "/srv/disk.img", "", ""},
		{"", "/srv/a:b", "", ""},
		{"", ":/srv/disk.img", "", ""},
	} {
		r := &replicate{spec: sdk.ReplicationSpec{SourceNode: tt.from}, rate: 7}
		err := r.parse(tt.source)
		if tt.node == "" {
			if err == nil || exitStatus(err) != exitUsage || !strings.Contains(err.Error(), "--from NODE") {
				t.Errorf("%q: %v, want how it is called", tt.source, err)
			}
			continue
		}
		if err != nil || r.spec.SourceNode != tt.node || r.spec.SourcePath != tt.path || r.spec.MaxBytesPerSecond != 7 {
			t.Errorf("%q from %q: %+v, %v", tt.source, tt.from, r.spec, err)
		}
	}
}

func replicated(state sdk.ReplicationState, replicas ...sdk.Replica) sdk.Replication {
	r := sdk.Replication{
		ID: "0123456789", State: state, Name: "disk.img", Length: 100, ReplicaCount: len(replicas), Replicas: replicas,
		Legs: []sdk.Leg{{LAN: "rack1", Group: "239.195.0.1:7431", Replicas: 2}, {LAN: "rack2", Group: "239.195.0.2:7431", Replicas: 1}},
	}
	for _, replica := range replicas {
		if replica.State == sdk.ReplicaComplete {
			r.Complete++
		}
	}
	return r
}

// Exit codes are those of push: 0 all complete, 3 some, 1 none, 130 interrupted.
func TestOutcomeOfReplication(t *testing.T) {
	complete, failed := sdk.Replica{State: sdk.ReplicaComplete}, sdk.Replica{State: sdk.ReplicaFailed, Reason: "no_multicast"}
	unknown := sdk.Replica{Name: "a2", State: sdk.ReplicaUnknown, Changed: time.Now().Add(-27 * time.Second)}
	for _, tt := range []struct {
		r      sdk.Replication
		status int
		says   string
	}{
		{replicated(sdk.ReplicationComplete, complete, complete), exitOK, ""},
		{replicated(sdk.ReplicationPartial, complete, failed), exitPartial, "1 of 2"},
		{replicated(sdk.ReplicationFailed, failed), exitFailed, "no_multicast"},
		{replicated(sdk.ReplicationFailed, unknown), exitFailed, "nothing was heard of a2 for 27s"},
		{replicated(sdk.ReplicationFailed, unknown, unknown, unknown, unknown, unknown), exitFailed, "a2 for 27s, a2 for 27s, a2 for 27s, 2 others"},
		{replicated(sdk.ReplicationRunning, failed), exitInterrupted, ""},
	} {
		err, status := replicationOutcome(tt.r), exitOK
		if err != nil {
			status = exitStatus(err)
		}
		if status != tt.status || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, exit status %d, want %d", tt.r.State, err, status, tt.status)
		}
	}
}

// If nothing can begin, as somebody is missing, the exit status says that, and not that something has failed.
func TestNothingBeginsWithout(t *testing.T) {
	for _, reason := range []string{"NO_RECEIVERS", "NO_AGENT", "NO_REPLICAS", "NO_SENDER", "REPLICATOR_OFFLINE"} {
		if got := exitStatus(&sdk.Error{Code: sdk.Conflict, Reason: reason}); got != exitNotFound {
			t.Errorf("%s: exit status %d, want %d", reason, got, exitNotFound)
		}
	}
	if got := exitStatus(&sdk.Error{Code: sdk.Conflict, Reason: "OBJECT_TOO_LARGE"}); got != exitFailed {
		t.Errorf("exit status %d of another reason", got)
	}
}

// Progress is live per LAN: how many are complete, and what the last of the others has.
func TestProgressPerLAN(t *testing.T) {
	r := replicated(sdk.ReplicationRunning,
		sdk.Replica{Name: "a", LAN: "rack1", State: sdk.ReplicaReceiving, Bytes: 40},
		sdk.Replica{Name: "b", LAN: "rack1", State: sdk.ReplicaComplete, Bytes: 100},
		sdk.Replica{Name: "c", LAN: "rack2", State: sdk.ReplicaFailed, Reason: "disk"})
	var lines []string
	for _, l := range lanStandings(r) {
		lines = append(lines, l.line(r.Length))
	}
	if got := strings.Join(lines, "; "); got != "LAN rack1: 1 of 2 complete, the last one has 40%; LAN rack2: 0 of 1 complete" {
		t.Errorf("it says %q", got)
	}
	var out bytes.Buffer
	p := newProgress(&app{stderr: &out})
	p.showReplication(r)
	p.lastLine = time.Now().Add(-linePause)
	p.showReplication(r)
	want := "b: COMPLETE (100 B)\nc: FAILED(disk) (0 B)\n01234567: 0 B of 100 B sent; LAN rack1: 1 of 2 complete, the last one has 40%; LAN rack2: 0 of 1 complete; waiting for a\n"
	if got := out.String(); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// The rest of a LAN is spoken of in the singular or the plural.
func TestRestOfALAN(t *testing.T) {
	for want, l := range map[string]lanStanding{
		"LAN r: 0 of 1 complete, it has 40%":                   {Leg: sdk.Leg{LAN: "r", Replicas: 1}, least: 40},
		"LAN r: 1 of 2 complete, the last one has 40%":         {Leg: sdk.Leg{LAN: "r", Replicas: 2}, complete: 1, ended: 1, least: 40},
		"LAN r: 0 of 2 complete, each has 40% at least":        {Leg: sdk.Leg{LAN: "r", Replicas: 2}, least: 40},
		"LAN r: 0 of 3 complete, the others have 40% at least": {Leg: sdk.Leg{LAN: "r", Replicas: 3}, ended: 1, least: 40},
		"LAN r: 1 of 1 complete":                               {Leg: sdk.Leg{LAN: "r", Replicas: 1}, complete: 1, ended: 1, least: 100},
	} {
		if got := l.line(100); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// What is shown does not fall back while a manager that begins to lead has not heard of it yet.
func TestReplicationDoesNotFallBack(t *testing.T) {
	p := newProgress(&app{stderr: new(bytes.Buffer)})
	r := replicated(sdk.ReplicationRunning, sdk.Replica{Name: "a", LAN: "rack1", State: sdk.ReplicaReceiving, Bytes: 48})
	r.SentBytes = 50
	before := p.standingOf(r)
	r.SentBytes, r.Replicas[0].Bytes = 0, 0
	after := p.standingOf(r)
	if after.sent != before.sent || !strings.Contains(after.sent, "50 B of 100 B sent; LAN rack1: 0 of 2 complete, each has 48% at least") || after.parts[0].bytes != 48 {
		t.Errorf("%q with %+v became %q with %+v", before.sent, before.parts, after.sent, after.parts)
	}
}

// On a terminal the LANs are drawn above the replicas, and nothing more than fits.
func TestDrawnReplicationFits(t *testing.T) {
	var replicas []sdk.Replica
	for i := range 50 {
		replicas = append(replicas, sdk.Replica{Name: string(rune('a' + i%26)), LAN: "rack1", State: sdk.ReplicaReceiving})
	}
	p := newProgress(&app{stderr: new(bytes.Buffer)})
	for fit := 2; fit < 60; fit++ {
		if lines := p.standingOf(replicated(sdk.ReplicationRunning, replicas...)).drawn(fit); len(lines) > fit || !strings.HasPrefix(lines[0], "LAN rack1: 0 of 2") {
			t.Errorf("%d lines where %d fit: %q", len(lines), fit, lines)
		}
	}
}

// Each reason is told once, with what to do.
func TestSummaryTellsReasonsOnce(t *testing.T) {
	failed := sdk.Replica{Name: "a", State: sdk.ReplicaFailed, Reason: "refused", Detail: "allow it by name"}
	r := replicated(sdk.ReplicationFailed, failed, failed)
	r.Reason, r.Detail = "canceled", "the replication was canceled"
	text := replicationSummary(r)
	if strings.Count(text, "allow it by name") != 1 || !strings.Contains(text, "\ncanceled: the replication was canceled") || !strings.Contains(text, "failed(canceled): 0 of 2") {
		t.Errorf("it says %q", text)
	}
}

// Replicas that refuse for the same reason may each need something else: all of that is told, but not for hundreds.
func TestSummaryTellsOtherDetails(t *testing.T) {
	refused := func(name string) sdk.Replica {
		return sdk.Replica{Name: name, State: sdk.ReplicaFailed, Reason: "refused", Detail: "not below one of targets (/" + name + ")"}
	}
	text := replicationSummary(replicated(sdk.ReplicationFailed, refused("b"), refused("b"), refused("c")))
	if !strings.HasSuffix(text, "\nrefused (b): not below one of targets (/b)\nrefused (c): not below one of targets (/c)") {
		t.Errorf("it says %q", text)
	}
	var many []sdk.Replica
	for i := range 100 {
		many = append(many, refused(fmt.Sprint("r", i)))
	}
	text = replicationSummary(replicated(sdk.ReplicationFailed, many...))
	if strings.Count(text, "refused (") != mostReasons || !strings.HasSuffix(text, "\nand others: groupcast replication get 01234567 -o wide") {
		t.Errorf("of a hundred it says %q", text)
	}
}

// Text that others chose, such as a name or a failure at a replica, moves no cursor and breaks no line.
func TestSummaryShowsNoControlCharacters(t *testing.T) {
	r := replicated(sdk.ReplicationFailed, sdk.Replica{Name: "a", State: sdk.ReplicaFailed, Reason: "disk", Detail: "write\x1b[2J x\ny"})
	r.Name = "disk\x1b[1A\nimg"
	if text := replicationSummary(r); strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 1 || !strings.Contains(text, `disk\x1b[1A\nimg`) {
		t.Errorf("it says %q", text)
	}
}

func TestPathsOfReplicationsAreUTF8(t *testing.T) {
	for _, tt := range []struct{ source, to string }{{"store-1:/srv/\xff", "/srv"}, {"store-1:/srv/a", "/srv/\xff"}} {
		r := &replicate{spec: sdk.ReplicationSpec{TargetPath: tt.to}}
		if err := r.parse(tt.source); err == nil || exitStatus(err) != exitUsage || !strings.Contains(err.Error(), `\xff" is not UTF-8`) {
			t.Errorf("%q to %q: %v, want that it is called wrongly", tt.source, tt.to, err)
		}
	}
}
