package replicator

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/sdk"
)

// Why a replica did not come from session agents is said in the words of replications: what its
// disk did, what the delivery says, or that there was no session; no other error is the disk's.
func TestReasonOfDelivery(t *testing.T) {
	for want, errs := range map[string][]error{
		"session_lost": {fmt.Errorf("%w: join group g: %w", errNoSession, errors.New("expired"))},
		"refused":      {errNotAllowed, &sdk.DeliveryError{Reason: "refused"}},
		"disk":         {errors.New("mkdir: permission denied"), &sdk.DeliveryError{Reason: "failed"}},
		"no_room":      {noroom.Err, &sdk.DeliveryError{Reason: "no_room"}},
		"damaged":      {&sdk.DeliveryError{Reason: "damaged"}},
		"slow":         {&sdk.DeliveryError{Reason: "slow"}},
		"sender_lost":  {&sdk.DeliveryError{Reason: "canceled"}, &sdk.DeliveryError{Reason: "no_path"}},
	} {
		for _, err := range errs {
			if got := reasonOfDelivery(fmt.Errorf("receive: %w", err)); got != want {
				t.Errorf("%v is %s, want %s", err, got, want)
			}
		}
	}
}

// A delivery whose sender was not heard of is not the last word, nor is one that another can take the place of, nor one that a replica came to late
// and that ended since all others had failed. What this replica itself cannot do is, and so is a delivery that was made for it.
func TestLastWord(t *testing.T) {
	late := sdk.Incoming{Late: true}
	for want, all := range map[bool][]sdk.Arrived{
		true: {
			{},
			{Incoming: late},
			{Err: errors.New("the managers did not take the receipt")},
			{Err: &sdk.DeliveryError{Reason: "canceled"}},
			{Incoming: late, Err: &sdk.DeliveryError{Reason: "no_room"}},
			{Incoming: late, Err: &sdk.DeliveryError{Reason: "refused"}},
			{Incoming: late, Err: &sdk.DeliveryError{Reason: "failed"}},
			{Incoming: late, Err: &sdk.DeliveryError{Reason: "slow"}},
		},
		false: {
			{Err: &sdk.DeliveryError{Reason: "sender_lost"}},
			{Err: &sdk.DeliveryError{Reason: "failed", MayComeAgain: true}},
			{Incoming: late, Err: &sdk.DeliveryError{Reason: "canceled"}},
		},
	} {
		for _, arrived := range all {
			if got := isLastWord(arrived); got != want {
				t.Errorf("%+v is the last word: %v, want %v", arrived, got, want)
			}
		}
	}
}

// To whom has all nothing more is delivered, nor to who was in so many deliveries in vain; all others are delivered to again.
func TestToWhomNothingMoreIsDelivered(t *testing.T) {
	d := &delivery{vain: make(map[string]int)}
	receipts := []sdk.Receipt{{Member: "a", State: sdk.ReceiptComplete}, {Member: "b", State: sdk.ReceiptFailed}, {Member: "other", State: sdk.ReceiptComplete}}
	if got := d.done([]string{"a", "b", "c"}, receipts); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after the first: %v", got)
	}
	for i := range maxVain - 1 {
		got := d.done([]string{"b"}, receipts)
		if isOver := i == maxVain-2; slices.Equal(got, []string{"b"}) != isOver {
			t.Errorf("after %d in vain: %v", i+2, got)
		}
	}
}

// A receiver that was not heard of for a while joins again; one whose place another has taken does not.
func TestWhoseSessionExpiredJoinsAgain(t *testing.T) {
	for want, errs := range map[bool][]error{
		true:  {&sdk.SessionEnded{State: "expired"}, &sdk.Error{Code: sdk.Unavailable}, &sdk.Error{Code: sdk.TimedOut}},
		false: {&sdk.SessionEnded{State: "fenced"}, &sdk.SessionEnded{State: "expelled"}, &sdk.Error{Code: sdk.NotFound}, errNotAllowed},
	} {
		for _, err := range errs {
			if got := isLost(fmt.Errorf("%w: %w", errNoSession, err)); got != want {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		}
	}
}

// What is in the way for a moment does not end a delivery for good; what the managers refuse does.
func TestWhatIsDeliveredAgain(t *testing.T) {
	refused := func(reason string) error { return &sdk.Error{Code: sdk.Conflict, Reason: reason} }
	for want, errs := range map[bool][]error{
		true:  {&sdk.SessionEnded{State: "expired"}, &sdk.Error{Code: sdk.Unavailable}, errSenderLost, refused("SESSION_ENDED"), refused("NO_RECEIVERS")},
		false: {&sdk.SessionEnded{State: "fenced"}, &sdk.Error{Code: sdk.NotFound}, refused("NO_AGENT"), errNotAllowed},
	} {
		for _, err := range errs {
			if got := mayDeliverAgain(fmt.Errorf("delivery: %w", err)); got != want {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		}
	}
}

// Session agents treat a slow replica as its replication asks.
func TestSlowIsPassedOn(t *testing.T) {
	for slow, want := range map[replicav1.SlowReplica]sdk.SlowMemberAction{
		replicav1.SlowReplica_SLOW_REPLICA_UNSPECIFIED: sdk.Pace,
		replicav1.SlowReplica_SLOW_REPLICA_PACE:        sdk.Pace,
		replicav1.SlowReplica_SLOW_REPLICA_DETACH:      sdk.Detach,
	} {
		got := sendOptions(&replicav1.SendTask{Slow: slow, MaxBytesPerSecond: 7})
		if got.SlowMember.Action != want || got.MaxBytesPerSecond != 7 || got.AckLevel != sdk.Durable {
			t.Errorf("%v becomes %+v", slow, got)
		}
	}
}

// What was there already has not come; what came before all begins anew has, and is not taken back.
func TestOnlyWhatCameIsCounted(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
	j := &job{receiving: new(replicav1.ReceiveReport)}
	told := w.flow(j)
	for _, step := range []struct{ landed, came uint64 }{{1000, 0}, {1500, 500}, {1500, 500}, {0, 500}, {2000, 2500}} {
		told(sdk.Incoming{}, step.landed)
		var metric dto.Metric
		if err := w.metrics.received.Write(&metric); err != nil {
			t.Fatal(err)
		}
		if got := metric.GetCounter().GetValue(); got != float64(step.came) || j.receiving.GetBytes() != step.landed {
			t.Errorf("with %d bytes there, %g have come, want %d", step.landed, got, step.came)
		}
	}
	if j.receiving.GetResumedBytes() != 1000 {
		t.Errorf("%d bytes were there before", j.receiving.GetResumedBytes())
	}
}

// What comes as onto a block device is not put into a directory, and whoever reads why is told what to do.
func TestStreamGoesIntoNoDirectory(t *testing.T) {
	dir := t.TempDir()
	w := newWorker(slog.New(slog.DiscardHandler), nil, &places{targets: []string{dir}}, nil, nil, "r1")
	for serial, want := range map[string]string{"": "replicate on its own", "WD-1234": "no serial number"} {
		options := new(sdk.ReceiveOptions)
		if err := w.landAt(t.Context(), new(job), &replicav1.ReceiveTask{Path: dir, DeviceSerial: serial}, options); err != nil || options.Into != dir {
			t.Fatalf("into %q, %v", options.Into, err)
		}
		if to, err := options.Stream(sdk.Incoming{}); to != nil || !errors.Is(err, errNotAllowed) || !strings.Contains(err.Error(), want) {
			t.Errorf("it goes to %v, %v; want %q", to, err, want)
		}
	}
}
