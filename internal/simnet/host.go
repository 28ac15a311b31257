package simnet

import (
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Host is a machine with one process on it.
type Host struct {
	net  *Network
	name string

	down   bool // the process was killed
	off    bool // the machine has no power: it answers nothing, not even with resets
	frozen bool // the process is stopped; the kernel goes on
	thawed []func()
	refuse bool

	listeners map[int]*listener
	sockets   map[int]*PacketConn
	dials     map[*dial]*dial // under way
	nextPort  int
}

// Addr is the address of an end: host:port.
type Addr struct {
	Proto string // tcp or udp
	Host  string
	Port  int
}

// Network returns the protocol.
func (a Addr) Network() string { return a.Proto }

func (a Addr) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// parse reads host:port. An empty host, or an address that stands for the local host elsewhere, is this host.
func (h *Host) parse(proto, address string) (Addr, error) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return Addr{}, err
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return Addr{}, &net.AddrError{Err: "invalid port", Addr: address}
	}
	switch host {
	case "", "localhost", "0.0.0.0", "127.0.0.1", "::", "::1":
		host = h.name
	}
	return Addr{Proto: proto, Host: host, Port: int(port)}, nil
}

// local reads an address to listen on.
func (h *Host) local(proto, address string, taken func(port int) bool) (Addr, error) {
	at, err := h.parse(proto, address)
	switch {
	case err != nil:
		return Addr{}, err
	case at.Host != h.name:
		return Addr{}, syscall.EADDRNOTAVAIL
	case h.down:
		return Addr{}, syscall.ENETDOWN
	case at.Port == 0:
		at.Port = h.freePort(taken)
	case taken(at.Port):
		return Addr{}, syscall.EADDRINUSE
	}
	return at, nil
}

func (h *Host) freePort(taken func(port int) bool) int {
	for {
		port := h.nextPort
		h.nextPort++
		if h.nextPort > 65535 {
			h.nextPort = 49152
		}
		if !taken(port) {
			return port
		}
	}
}

func unknownHost(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func isTCP(network string) bool { return strings.HasPrefix(network, "tcp") }
