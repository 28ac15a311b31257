package replicator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/uplink"
)

// A LAN is led to by an interface's name, by an address of this machine, or by a network that it has one of.
func TestInterfaceByNameAddressOrNetwork(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(interfaces, func(one net.Interface) bool { return one.Flags&net.FlagLoopback != 0 })
	if at < 0 {
		t.Fatal("there is no loopback")
	}
	loopback := interfaces[at].Name
	for _, text := range []string{loopback, "127.0.0.1", "127.0.0.0/8"} {
		config := Config{Settings: Settings{LANs: []string{"rack=" + text}}}
		if to, err := config.way("rack"); err != nil || to.device != loopback || text != loopback && to.address.String() != "127.0.0.1" {
			t.Errorf("%s: %v, %v, want %s", text, to, err, loopback)
		}
	}
	for text, want := range map[string]string{
		"nothing0":         "network interface nothing0",
		"203.0.113.0/24":   "no network interface has an address of 203.0.113.0/24",
		"203.0.113.1":      "no network interface has an address of 203.0.113.1",
		"203.0.113.0/2400": "network interface 203.0.113.0/2400",
	} {
		config := Config{Settings: Settings{LANs: []string{text}}}
		if _, err := config.here(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Machines of several LANs can have one configuration: each is on those of whose networks it has an address, and on one at least. An interface
// that is named has to be there. A machine that sends to a LAN that it is not on does so by the first, if routers can carry that there.
func TestLANsOfOtherMachinesAreLeftOut(t *testing.T) {
	config := Config{Settings: Settings{LANs: []string{"rack1=203.0.113.0/24", "rack2=127.0.0.0/8"}}}
	here, err := config.here()
	if err != nil {
		t.Fatal(err)
	}
	if all := here.lans(); len(all) != 1 || all[0].name != "rack2" {
		t.Errorf("a machine of rack2 is on %v", all)
	}
	if out := config.leftOut(here); !slices.Equal(out, []string{"rack1=203.0.113.0/24"}) {
		t.Errorf("it is not on %v", out)
	}
	if to, err := config.way("rack1"); !errors.Is(err, errElsewhere) {
		t.Errorf("there leads %v: %v", to, err)
	}
	for ttl, want := range map[int]string{1: "", 4: "127.0.0.1"} {
		routed := config
		routed.TTL = ttl
		to, err := routed.wayOut("rack1")
		if want == "" && !errors.Is(err, errElsewhere) || want != "" && (err != nil || to.address.String() != want) {
			t.Errorf("with a TTL of %d there leads for who sends %v: %v", ttl, to, err)
		}
	}
	if to, err := config.way("rack3"); err != nil || to.address.String() != "127.0.0.1" {
		t.Errorf("to a LAN of another name leads %v: %v", to, err)
	}
	for text, want := range map[string]string{
		"rack3=198.51.100.0/24": "no network interface has an address of 203.0.113.0/24, 198.51.100.0/24",
		"rack3=nothing0":        "network interface nothing0",
	} {
		config.LANs[1] = text
		if _, err := config.here(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A LAN of which a machine has no address when it begins is one that it registers for once it has, in place of one that it is not on any
// more: each registration goes on as the one before. An interface that is gone, of another LAN, does not keep it from that.
func TestLANsOfAMachineThatMovesAreRegistered(t *testing.T) {
	for name, others := range map[string][]string{"alone": nil, "another's interface is gone": {"lab=nothing0"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { movesAmong(t, others) })
		})
	}
}

// movesAmong moves a machine from one LAN to another, beside others.
func movesAmong(t *testing.T, others []string) {
	config := &Config{Settings: Settings{LANs: append([]string{"rack1=203.0.113.0/24", "rack2=127.0.0.1"}, others...)}}
	here := &Config{Settings: Settings{LANs: append([]string{"rack1=eth0"}, others...)}} // as it was then
	want := [][]string{here.names(), append([]string{"rack2"}, here.names()[1:]...)}
	ctx, stop := context.WithCancel(t.Context())
	var registered [][]string
	done := make(chan error)
	go func() {
		done <- attend(ctx, slog.New(slog.DiscardHandler), config, here, func(ctx context.Context, lans []string) error {
			registered = append(registered, lans)
			<-ctx.Done()
			if isAnew := errors.Is(context.Cause(ctx), uplink.ErrAnew); isAnew != slices.Equal(lans, want[0]) {
				t.Errorf("the registration on %v is made anew: %v", lans, isAnew)
			}
			return nil
		})
	}()
	time.Sleep(time.Hour)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !slices.EqualFunc(registered, want, slices.Equal[[]string]) {
		t.Errorf("it registers on %v, want %v", registered, want)
	}
}
