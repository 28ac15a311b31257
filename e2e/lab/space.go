package lab

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/thread"
)

// space is a network namespace and a mount namespace without a name. They live
// as long as their keeper, a thread, and the descriptor of the network, so the
// kernel removes them with this process, however it ends.
type space struct {
	net  *os.File // the network namespace
	jobs chan func()
	gone chan struct{}
}

func openSpace() (*space, error) {
	s := &space{jobs: make(chan func()), gone: make(chan struct{})}
	ready := make(chan error, 1)
	go func() {
		defer close(s.gone)
		_ = thread.Do(func() error { s.keep(ready); return nil })
	}()
	if err := <-ready; err != nil {
		<-s.gone
		return nil, err
	}
	return s, nil
}

// keep holds the namespaces and does jobs in them until there are no more.
// Children are started here because a child's parent-death signal follows the
// thread that started it, not the process.
func (s *space) keep(ready chan<- error) {
	err := s.separate()
	ready <- err
	if err != nil {
		return
	}
	for job := range s.jobs {
		job()
	}
}

func (s *space) separate() error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("make a network and a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	var err error
	s.net, err = os.Open("/proc/thread-self/ns/net")
	return err
}

// do runs f on the keeper, in both namespaces. It must not wait for anything
// but the kernel.
func (s *space) do(f func() error) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- f() }
	return <-result
}

// enter runs f in the network namespace on a thread of its own.
func (s *space) enter(f func() error) error {
	return thread.Do(func() error {
		if err := unix.Setns(int(s.net.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// close ends the keeper and with it the namespaces.
func (s *space) close() error {
	close(s.jobs)
	<-s.gone
	return s.net.Close()
}

// settings are what every machine of the lab runs with. IPv6 is off because its
// neighbour and router discovery would be packets nobody sent.
var settings = map[string]string{
	"net/ipv6/conf/all/disable_ipv6":     "1",
	"net/ipv6/conf/default/disable_ipv6": "1",
	"net/ipv4/conf/all/rp_filter":        "0",
	"net/ipv4/conf/default/rp_filter":    "0",
	"net/ipv4/tcp_no_metrics_save":       "1", // a flow does not learn from the one before
	"net/ipv4/icmp_ratelimit":            "0",
	// A bridge is a switch: what a container engine has asked of bridges is not asked here.
	"net/bridge/bridge-nf-call-arptables": "0",
	"net/bridge/bridge-nf-call-iptables":  "0",
}

func (s *space) configure(extra map[string]string) error {
	return s.do(func() error {
		var wrong []error
		for _, values := range []map[string]string{settings, extra} {
			for name, value := range values {
				if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
					wrong = append(wrong, fmt.Errorf("set %s: %w", name, err))
				}
			}
		}
		return errors.Join(wrong...)
	})
}
