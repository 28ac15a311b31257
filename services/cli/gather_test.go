package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Clients are drawn as far as a screen has columns and lines for them. A line says how many do not fit, what these get, and how many of
// them wait.
func TestClientsAreDrawn(t *testing.T) {
	clients := []gather.ClientStatus{
		{Name: "alice", Attached: true, Share: policy.Share{Target: 125_000}, Rate: 250_000, RTT: 20 * time.Millisecond, Window: 64 << 10, Connections: 1, Wanted: 2, State: "persistent"},
		{Name: "bob", Attached: true, Rate: 1_000_000, Connections: 1, Wanted: 1, State: "initial"},
		{Name: "carol", Attached: true, Paused: "queued"},
		{Name: "dave", Attached: false, Paused: "queued"},
	}
	for _, c := range []struct {
		width, fit int
		want       []string
	}{
		{200, 5, []string{
			"CLIENT PRIORITY TARGET RATE ROUND TRIP WINDOW CONNECTIONS STATE HELD UP",
			"alice 0 1.00 Mbit/s 2.00 Mbit/s 20.0 ms 64 KiB 1 of 2 persistent -",
			"bob 0 - 8.00 Mbit/s - 0 B 1 of 1 initial -",
			"carol 0 - - - 0 B 0 of 1 paused: queued -",
			"dave 0 - - - 0 B 0 of 1 gone -",
		}},
		{60, 4, []string{
			"CLIENT TARGET RATE STATE",
			"alice 1.00 Mbit/s 2.00 Mbit/s persistent",
			"bob - 8.00 Mbit/s initial",
			"and 2 more: nothing together, 1 paused",
		}},
		{60, 3, []string{"CLIENT TARGET RATE STATE", "alice 1.00 Mbit/s 2.00 Mbit/s persistent", "and 3 more: 8.00 Mbit/s together, 1 paused"}},
		{60, 0, []string{"CLIENT TARGET RATE STATE", "and 4 more: 10.00 Mbit/s together, 1 paused"}},
	} {
		t.Run(fmt.Sprintf("%dx%d", c.width, c.fit), func(t *testing.T) {
			lines, err := clientTable(clients, false, c.width, c.fit)
			for i, line := range lines {
				lines[i] = strings.Join(strings.Fields(line), " ")
			}
			if err != nil || !slices.Equal(lines, c.want) {
				t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
			}
		})
	}
}

// Where no terminal is, each line is about one client, and is written when that client stands otherwise than it did.
func TestClientsThatStandAsBeforeHaveNoLine(t *testing.T) {
	changes := make(clientChanges)
	alice := gather.ClientStatus{Name: "alice", Attached: true, Share: policy.Share{Target: 125_000}, Rate: 250_000, Connections: 1, State: "persistent"}
	bob := gather.ClientStatus{Name: "bob", Attached: true, Rate: 1_000_000, Paused: "too_many"}
	for i, round := range []struct {
		all  gather.Snapshot
		want []string
	}{
		{gather.Snapshot{Received: 250_000, Available: 2_500_000, Clients: []gather.ClientStatus{alice, bob}}, []string{
			"alice  2.00 Mbit/s  1.00 Mbit/s  persistent", "bob  -  -  paused: too many", "(all)  2.00 Mbit/s  20.00 Mbit/s  2 attached",
		}},
		{gather.Snapshot{Received: 250_000, Available: 2_500_000, Window: 9, Clients: []gather.ClientStatus{alice, bob}}, nil},
		{gather.Snapshot{Received: 250_000, Available: 2_500_000, Clients: []gather.ClientStatus{alice, {Name: "bob"}}}, []string{
			"bob  -  -  gone", "(all)  2.00 Mbit/s  20.00 Mbit/s  1 attached",
		}},
	} {
		if got := changes.in(round.all); !slices.Equal(got, round.want) {
			t.Errorf("round %d: %q, want %q", i, got, round.want)
		}
	}
}

// On a terminal, clients are a table that is drawn over the one before, and never higher than the screen.
func TestClientsAreDrawnOverWhatWasThere(t *testing.T) {
	var said strings.Builder
	a, shown := new(app), &screen{to: &said, terminal: os.Stdin}
	width, height := shown.size()
	all := gather.Snapshot{Controller: "groupcast", Received: 1e6, Available: 2e6}
	for i := range height * 2 {
		all.Clients = append(all.Clients, gather.ClientStatus{Name: fmt.Sprintf("client-%d", i)})
	}
	draw := func() string {
		t.Helper()
		said.Reset()
		if err := a.showClients(shown, nil, all); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	first := draw()
	lines := strings.Count(first, "\n")
	if lines != height-1 || !strings.Contains(first, "client-0") || !strings.HasPrefix(first, "groupcast: ") {
		t.Errorf("%d lines on a screen of %d times %d:\n%s", lines, width, height, first)
	}
	all.Clients = all.Clients[:1]
	if second, want := draw(), fmt.Sprintf(back, lines)+"groupcast: "; !strings.HasPrefix(second, want) || strings.Count(second, "\n") != 3 {
		t.Errorf("then %q is drawn, want it to begin with %q", second, want)
	}
}

// That a gatherer is away is said once, where the table was, until it is seen again.
func TestGathererThatIsAwayIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		a, shown := &app{stderr: &said}, &screen{to: &said, terminal: os.Stdin}
		away, gone, times := &sdk.Error{Code: sdk.Unavailable, Message: "connection refused"}, errors.New("gone"), 0
		err := a.keepWatching(t.Context(), shown, func(seen func()) error {
			switch times++; times {
			case 1, 4:
				seen()
				shown.drawLines([]string{"one", "two"})
			case 6:
				return gone
			}
			return away
		})
		const table, line = "one\x1b[K\ntwo\x1b[K\n\x1b[J", "\r\x1b[2A\x1b[Jthe gatherer is away, and is asked again: connection refused\n"
		if want := table + line + table + line; !errors.Is(err, gone) || said.String() != want {
			t.Errorf("%v, and it says %q, want %q", err, said.String(), want)
		}
	})
}

// Where no terminal shows what a gatherer says, and nothing has changed, it is told that it is back.
func TestGathererThatIsBackIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		a, shown := &app{stderr: &said}, &screen{to: &said}
		away, gone, times := &sdk.Error{Code: sdk.Unavailable, Message: "connection refused"}, errors.New("gone"), 0
		err := a.keepWatching(t.Context(), shown, func(seen func()) error {
			switch times++; times {
			case 1, 3:
				seen()
				seen()
			case 4:
				return gone
			}
			return away
		})
		const line = "the gatherer is away, and is asked again: connection refused\n"
		if want := line + "the gatherer is back\n" + line; !errors.Is(err, gone) || said.String() != want {
			t.Errorf("%v, and it says %q, want %q", err, said.String(), want)
		}
	})
}

// A gatherer that does not answer is the one that is named, and not the managers: nobody has asked them. Long before the time is over, the
// user learns what is waited for.
func TestGathererThatDoesNotAnswerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		a := &app{stderr: &said, timeout: 5 * time.Second, gathererAt: "10.0.0.9:7420", managers: "10.0.0.1:7400, as adm.yaml says"}
		err := a.bounded(func(ctx context.Context, _ *gather.Client, _ []string) error {
			time.Sleep(answerPatience)
			synctest.Wait()
			if want := "no gatherer has answered yet; there should be one at 10.0.0.9:7420\n"; said.String() != want {
				t.Errorf("while it waits, it says %q, want %q", said.String(), want)
			}
			<-ctx.Done()
			return &sdk.Error{Code: sdk.TimedOut, Message: "no answer in time"}
		})(t.Context(), nil, nil)
		if hint := a.hint(err); !strings.HasPrefix(hint, ": is a gatherer at 10.0.0.9:7420? --to or GROUPCAST_GATHERER names one") {
			t.Errorf("the hint is %q", hint)
		}
	})
}

// A watch that ends because its connection is renewed, as each is now and then, goes on without a word. If the gatherer is away, that is
// said.
func TestRenewedWatchIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		a, shown := &app{stderr: &said}, &screen{to: &said}
		ended, times := &sdk.Error{Code: sdk.Unavailable, Message: "error reading from server: EOF"}, 0
		err := a.keepWatching(t.Context(), shown, func(seen func()) error {
			if said.Len() > 0 && times < 4 {
				t.Errorf("it says %q", said.String())
			}
			switch times++; times {
			case 1, 2, 3:
				seen()
				time.Sleep(30 * time.Minute)
				return ended
			case 4:
				time.Sleep(5 * time.Second)
				return &sdk.Error{Code: sdk.Unavailable, Message: "connection refused"}
			}
			return errors.New("gone")
		})
		if want := "the gatherer is away, and is asked again: connection refused\n"; said.String() != want || times != 5 {
			t.Errorf("%v after %d times, and it says %q, want %q", err, times, said.String(), want)
		}
	})
}
