package testprocess

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports of addresses. A program that asks the kernel for any port gets one above 32767: between the choice of an address and the start of
// the program that is to listen there, and while that is started again, nobody is given its port.
const (
	firstPort = 20_000
	ports     = 10_000
)

// reserved are the marks of this process's ports. Each is a socket with a name that only one process can have; it goes
// with the process.
var reserved struct {
	sync.Mutex
	marks []net.Listener
}

// FreeAddress is Address for a test.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Address returns an address on loopback at which nobody listens. While this process runs, no other call in any process
// gets the same.
func Address() (string, error) {
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		if !reserve(port) {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no port is free for a test")
}

func reserve(port int) bool {
	mark, err := net.Listen("unix", fmt.Sprintf("@groupcast-test-port-%d", port))
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.marks = append(reserved.marks, mark)
	return true
}
