package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Once a delivery that an earlier session was receiving has ended without this member, the command says what became of it.
func TestFate(t *testing.T) {
	ended := func(receipts ...sdk.Receipt) sdk.Delivery { return sdk.Delivery{Ended: time.Now(), Receipts: receipts} }
	other := sdk.Receipt{Member: "n2", State: sdk.ReceiptComplete}
	for what, tt := range map[string]struct {
		d     sdk.Delivery
		err   error
		known bool
		want  string
	}{
		"runs":               {d: sdk.Delivery{Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptUnknown}}}},
		"not answered":       {err: &sdk.Error{Code: sdk.Unavailable}},
		"forgotten":          {err: &sdk.Error{Code: sdk.NotFound}, known: true, want: "no manager knows of it any more: push it again"},
		"complete":           {d: ended(other, sdk.Receipt{Member: "n1", State: sdk.ReceiptComplete}), known: true, want: "<nil>"},
		"failed":             {d: ended(other, sdk.Receipt{Member: "n1", State: sdk.ReceiptFailed, Reason: "canceled", Detail: "by hand"}), known: true, want: "canceled: by hand"},
		"failed alone":       {d: sdk.Delivery{Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptFailed, Reason: "slow", Detail: "far behind"}}}, known: true, want: "slow: far behind"},
		"all have it":        {d: sdk.Delivery{Ended: time.Now(), State: sdk.DeliveryComplete, LeftOut: []string{"receipts"}}, known: true, want: "<nil>"},
		"late, of thousands": {d: sdk.Delivery{Ended: time.Now(), State: sdk.DeliveryFailed, LeftOut: []string{"late receipts"}}, known: true, want: errUnsaid.Error()},
		"of thousands":       {d: sdk.Delivery{Ended: time.Now(), State: sdk.DeliveryFailed, LeftOut: []string{"receipts"}}, known: true, want: errUnsaid.Error()},
		"away":               {d: ended(other, sdk.Receipt{Member: "n1", State: sdk.ReceiptUnknown}), known: true, want: "it ended while this member was not heard of, and no agent has more of it: push it again"},
	} {
		if why, isKnown := fate(tt.d, tt.err, "n1"); isKnown != tt.known || tt.known && fmt.Sprint(why) != tt.want {
			t.Errorf("%s: %v (known: %v), want %s", what, why, isKnown, tt.want)
		}
	}
}

// A delivery that has begun again is not given up; of each other, the command says once what became of it.
func TestLostIsToldOnce(t *testing.T) {
	m := managertest.Start(t)
	var said bytes.Buffer
	a, p := &app{stdout: &said, stderr: &said, timeout: 10 * time.Second}, &pull{into: t.TempDir()}
	for _, id := range []string{strings.Repeat("a", 32), strings.Repeat("b", 32)} {
		p.underWay.begins(sdk.Incoming{ID: id, Name: "of-" + id[:1], Sender: "s"})
	}
	p.underWay.sessionEnds()
	p.underWay.begins(sdk.Incoming{ID: strings.Repeat("b", 32), Name: "of-b", Sender: "s"})
	for range 2 {
		a.lookForLost(t.Context(), m.Client(t), p, func(error) { t.Error("it ends one that receives all") })
	}
	if want := "✗ of-a from s failed: no manager knows of it any more: push it again\n"; strings.Count(said.String(), "\n") != 1 || !strings.HasSuffix(said.String(), want) {
		t.Errorf("it says %q, want %q", &said, want)
	}
	said.Reset()
	p.underWay.unfinished(&said, p)
	if !strings.HasPrefix(said.String(), "of-b from s is unfinished") || strings.Contains(said.String(), "of-a") {
		t.Errorf("interrupted, it says %q", &said)
	}
}

// A member that receives one delivery receives the one that it has begun with. If that ends without the member, that ends the command,
// too; meanwhile it says what it waits for.
func TestOnceEndsWithWhatItHadBegun(t *testing.T) {
	client := managertest.Start(t).Client(t)
	if _, err := client.CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &app{stdout: &said, stderr: &said, timeout: 10 * time.Second}
	p := &pull{join: sdk.Join{Group: "models", Name: "n1", Roles: []sdk.Role{sdk.Receive}}, into: t.TempDir(), once: true, output: new(streamsOut)}
	p.underWay.begins(sdk.Incoming{ID: strings.Repeat("a", 32), Name: "weights", Sender: "s"})
	p.underWay.sessionEnds()
	if want := " for the rest of weights, or what became of it"; p.awaited() != want {
		t.Errorf("it joins again%s, want%s", p.awaited(), want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*lostPause)
	defer cancel()
	if err := a.pull(ctx, client, p); !errors.Is(err, errForgotten) {
		t.Errorf("it ends with %v, want %v", err, errForgotten)
	}
	if want := "✗ weights from s failed: no manager knows of it any more: push it again\n"; strings.Count(said.String(), want) != 1 {
		t.Errorf("it says %q, want %q", &said, want)
	}
}

// A delivery that has arrived unseen is a success, unless a command was to run for it. If something else is being received by then, that
// counts.
func TestOnceWhoseEndWasNotSeen(t *testing.T) {
	in := sdk.Incoming{Name: "weights"}
	if err := new(pull).outcome(in, nil); err != nil {
		t.Errorf("what is there is %v", err)
	}
	if err := (&pull{exec: "true"}).outcome(in, nil); err == nil {
		t.Error("a command that was not run is a success")
	}
	a, p := &app{stdout: io.Discard, stderr: io.Discard, timeout: 10 * time.Second}, &pull{into: t.TempDir(), once: true}
	p.underWay.begins(sdk.Incoming{ID: strings.Repeat("a", 32), Name: "weights", Sender: "s"})
	p.underWay.sessionEnds()
	p.underWay.begins(sdk.Incoming{ID: strings.Repeat("b", 32), Name: "others", Sender: "s"})
	a.lookForLost(t.Context(), managertest.Start(t).Client(t), p, func(error) { t.Error("it ends while it receives another") })
}

// A member that only takes streams says once that it refuses what its group keeps, and says it each time of a delivery whose sender waits.
func TestKeptObjectsAreRefusedInOneLine(t *testing.T) {
	var said bytes.Buffer
	a, p := &app{stdout: &said, stderr: &said}, &pull{stdout: true}
	refused := &sdk.DeliveryError{Reason: "refused", Detail: "it has no directory"}
	for _, one := range []sdk.Incoming{
		{Name: "old", Kind: sdk.File, Late: true},
		{Name: "older", Kind: sdk.Directory, Late: true},
		{Name: "new", Kind: sdk.File},
		{Name: "newer", Kind: sdk.File},
		{Name: "live", Kind: sdk.Stream, Late: true},
	} {
		if err := a.arrived(p, sdk.Arrived{Incoming: one, Err: refused}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	wants := []string{"what the group keeps", "new from", "newer from", "live from"}
	if len(lines) != len(wants) {
		t.Fatalf("said:\n%s", &said)
	}
	for i, want := range wants {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}
