package testprocess_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// No address is given twice, and none has a port that a kernel gives to programs that ask for any.
func TestAddressesAreOnesOwn(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last uint16
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		t.Fatal(err)
	}
	given := make(map[string]bool)
	for range 500 { // so many that by chance some would be the same
		address := testprocess.FreeAddress(t)
		if port := netip.MustParseAddrPort(address).Port(); given[address] || port >= first && port <= last {
			t.Errorf("%s is given; before: %t; kernels give %d to %d", address, given[address], first, last)
		}
		given[address] = true
	}
}
