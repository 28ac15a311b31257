package cli

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// concluding returns a command, its standard output, and its progress.
func concluding() (*app, *bytes.Buffer, *progress) {
	out := new(bytes.Buffer)
	a := &app{stdout: out, stderr: new(bytes.Buffer), output: "table"}
	return a, out, newProgress(a)
}

// A delivery that ends while the manager has not heard of all members ends with as much at each as was shown before.
func TestDeliveryEndsWithWhatWasShown(t *testing.T) {
	a, out, shown := concluding()
	d := sdk.Delivery{ID: "0123456789", Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptReceiving, Bytes: 90}}}
	shown.show(d)
	d.State, d.Receipts = sdk.DeliveryFailed, []sdk.Receipt{{Member: "n1", State: sdk.ReceiptUnknown, Changed: time.Now().Add(-90 * time.Second)}}
	err := a.conclude(context.Background(), nil, d, shown)
	if want := regexp.MustCompile(`n1 +UNKNOWN\(1m\) +90 B`); err == nil || !want.MatchString(out.String()) {
		t.Errorf("%v, %s, want %s", err, out, want)
	}
}

// A delivery that some got only after its end may never have been measured as a complete one: then nothing is said of how fast it was received.
func TestWhatWasNotMeasuredIsNotSaid(t *testing.T) {
	d := sdk.Delivery{ID: "0123456789", State: sdk.DeliveryComplete, SentBytes: 100, Length: 100, Measurements: sdk.Measurements{SendBytesPerSecond: 50}}
	if said := summary(d); strings.Contains(said, "received") || !strings.Contains(said, "sent at 50 B/s") {
		t.Errorf("it says %q", said)
	}
	d.Measurements.ReceptionBytesPerSecond, d.Measurements.EffectiveThroughput = 25, 0.5
	if said := summary(d); !strings.Contains(said, "received at 25 B/s by the slowest (effective throughput 0.50)") {
		t.Errorf("it says %q", said)
	}
}

// Members that came late are counted by themselves: the outcome is that of those that were there at the beginning.
func TestLateMembersAreCountedApart(t *testing.T) {
	d := sdk.Delivery{ID: "0123456789", Name: "f", State: sdk.DeliveryComplete, Complete: 1, Members: 1, Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptComplete}}}
	for _, want := range []string{
		": 1 of 1 members have it", ": 1 of the 1 members at its beginning have it, and 1 that came late", ": 1 of the 1 members at its beginning have it, and 1 of 2 that came late",
	} {
		if said := summary(d); !strings.HasSuffix(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
		late := sdk.Receipt{Member: "late", State: sdk.ReceiptComplete, Late: true}
		if len(d.Receipts) > 1 {
			late.State = sdk.ReceiptReceiving
		}
		d.Receipts = append(d.Receipts, late)
	}
}

// Where no member has failed, and yet none has it, the error says that nothing is heard of them.
func TestNobodyIsHeardOf(t *testing.T) {
	d := sdk.Delivery{ID: "0123456789", State: sdk.DeliveryFailed, Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptUnknown}, {Member: "n2", State: sdk.ReceiptUnknown}}}
	if err := outcomeOf(d); err == nil || err.Error() != "no member has it: nothing is heard of them any more" {
		t.Errorf("%v", err)
	}
	d.Receipts[1] = sdk.Receipt{Member: "n2", State: sdk.ReceiptFailed, Reason: "left"}
	if err := outcomeOf(d); err == nil || err.Error() != "no member has it: left" {
		t.Errorf("%v", err)
	}
}

// If neither multicast nor session agents got to the end, a replica has what multicast has brought.
func TestReplicationEndsWithWhatWasShown(t *testing.T) {
	a, out, shown := concluding()
	r := replicated(sdk.ReplicationRunning, sdk.Replica{Name: "a", LAN: "rack1", State: sdk.ReplicaReceiving, Bytes: 40})
	shown.showReplication(r)
	r = replicated(sdk.ReplicationFailed, sdk.Replica{Name: "a", LAN: "rack1", State: sdk.ReplicaFailed, Reason: "no_multicast", OverAgents: true})
	err := a.concludeReplication(r, shown)
	if want := regexp.MustCompile(`a +rack1 +multicast +FAILED\(no_multicast\) +40 B`); err == nil || !want.MatchString(out.String()) {
		t.Errorf("%v, %s, want %s", err, out, want)
	}
}

// If nobody knows how much a replica has, no number is shown, neither for it nor for the slowest of its LAN.
func TestUnknownBytesOfReplicas(t *testing.T) {
	a, out, shown := concluding()
	a.output = "wide"
	r := replicated(sdk.ReplicationFailed, sdk.Replica{Name: "a", LAN: "rack1", State: sdk.ReplicaUnknown, BytesUnknown: true}, sdk.Replica{Name: "b", LAN: "rack1", State: sdk.ReplicaUnknown, Bytes: 40})
	_ = a.concludeReplication(r, shown) // nobody has it
	for _, want := range []string{`a +rack1 +multicast +UNKNOWN\(\) +- `, `b +rack1 +multicast +UNKNOWN\(\) +40 B `, `rack1 +\S+ +0/\d +-\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("it says\n%swant %s", out, want)
		}
	}
}

// A delivery that was complete in the moment of its interruption was not canceled, and the exit status says so.
func TestWhatIsCompleteIsNotCanceled(t *testing.T) {
	for state, want := range map[sdk.DeliveryState]int{sdk.DeliveryComplete: exitOK, sdk.DeliveryPartial: exitInterrupted, sdk.DeliveryFailed: exitInterrupted} {
		a, _, shown := concluding()
		err := a.canceled(sdk.Delivery{ID: "0123456789", State: state}, shown)
		if said := fmt.Sprint(a.stderr); statusOf(err) != want || strings.Contains(said, "01234567 canceled\n") != (want != exitOK) {
			t.Errorf("%s: %v, and it said %q", state, err, said)
		}
	}
	for state, want := range map[sdk.ReplicationState]int{sdk.ReplicationComplete: exitOK, sdk.ReplicationPartial: exitInterrupted, sdk.ReplicationFailed: exitInterrupted} {
		a, _, shown := concluding()
		err := a.canceledReplication(replicated(state), shown)
		if said := fmt.Sprint(a.stderr); statusOf(err) != want || strings.Contains(said, "canceled\n") != (want != exitOK) {
			t.Errorf("%s: %v, and it said %q", state, err, said)
		}
	}
}

// broken is an output that nobody reads any more.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// An interrupt ends the program that reads the output, too: the command is interrupted all the same.
func TestInterruptedWithoutAReader(t *testing.T) {
	a, _, shown := concluding()
	a.stdout = broken{}
	if err := a.canceled(sdk.Delivery{ID: "0123456789", State: sdk.DeliveryFailed}, shown); statusOf(err) != exitInterrupted {
		t.Errorf("push: %v", err)
	}
	if err := a.canceledReplication(replicated(sdk.ReplicationFailed), shown); statusOf(err) != exitInterrupted {
		t.Errorf("replicate: %v", err)
	}
}

func statusOf(err error) int {
	if err == nil {
		return exitOK
	}
	return exitStatus(err)
}

// If an answer had no room for something, that is said where it would be shown.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	for _, tt := range []struct {
		output string
		left   []string
		want   bool
	}{
		{"table", nil, false},
		{"wide", nil, false},
		{"table", []string{"links", "tree"}, false},
		{"wide", []string{"links", "tree"}, true},
		{"table", []string{"links", "tree", "details", "receipts"}, true},
	} {
		out, said := new(bytes.Buffer), new(bytes.Buffer)
		a := &app{stdout: out, stderr: said, output: tt.output}
		if err := a.printDelivery(sdk.Delivery{LeftOut: tt.left}); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(said.String(), strings.Join(tt.left, ", ")) && said.Len() > 0; got != tt.want {
			t.Errorf("%s without %v: %q", tt.output, tt.left, said)
		}
	}
}
