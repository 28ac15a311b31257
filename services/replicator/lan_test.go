package replicator

import (
	"net"
	"slices"
	"strings"
	"testing"
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
		if here, err := config.here(); err != nil || here.device("rack") != loopback {
			t.Errorf("%s: %v, %v, want %s", text, here, err, loopback)
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
// that is named has to be there.
func TestLANsOfOtherMachinesAreLeftOut(t *testing.T) {
	config := Config{Settings: Settings{LANs: []string{"rack1=203.0.113.0/24", "rack2=127.0.0.0/8"}}}
	here, err := config.here()
	if err != nil {
		t.Fatal(err)
	}
	if all := here.lans(); len(all) != 1 || all[0].name != "rack2" || here.device("rack1") != all[0].device {
		t.Errorf("a machine of rack2 is on %v", all)
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
