package faults

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
)

// OtherCongestions returns the congestion controls that can be chosen and that the machines do not otherwise use.
func (n *Net) OtherCongestions() []string {
	n.Helper()
	read := func(name string) []string {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4", name))
		n.must(err)
		return strings.Fields(string(text))
	}
	usual := read("tcp_congestion_control")
	return slices.DeleteFunc(read("tcp_available_congestion_control"), func(name string) bool {
		return slices.Contains(usual, name) || !slices.Contains([]string{"cubic", "bbr", "reno"}, name)
	})
}

// Congestions returns the congestion controls of a program's connections to another machine, each with the number of
// these connections.
func (n *Net) Congestions(process *lab.Process, to string) map[string]int {
	n.Helper()
	of, err := unix.PidfdOpen(process.Pid(), 0)
	n.must(err)
	defer unix.Close(of)
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", process.Pid()))
	n.must(err)
	counts := make(map[string]int)
	for _, descriptor := range descriptors {
		number, err := strconv.Atoi(descriptor.Name())
		n.must(err)
		if name := congestion(of, number, n.Machine(to).At(0)); name != "" {
			counts[name]++
		}
	}
	return counts
}

// congestion returns the congestion control of a program's descriptor, if that is a connection to a machine, whose
// address is given with port 0.
func congestion(of, descriptor int, machine string) string {
	socket, err := unix.PidfdGetfd(of, descriptor, 0)
	if err != nil {
		return "" // it has been closed meanwhile
	}
	defer unix.Close(socket)
	peer, err := unix.Getpeername(socket)
	if err != nil {
		return ""
	}
	var address netip.Addr
	switch peer := peer.(type) {
	case *unix.SockaddrInet4:
		address = netip.AddrFrom4(peer.Addr)
	case *unix.SockaddrInet6:
		address = netip.AddrFrom16(peer.Addr).Unmap()
	}
	if netip.AddrPortFrom(address, 0).String() != machine {
		return ""
	}
	name, err := unix.GetsockoptString(socket, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}

// Read returns how many bytes a machine's program has read, including what the kernel sent for it out of files.
func (m *Machine) Read(t testing.TB) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", m.Process.Pid()))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "rchar: %d", &bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
