package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// footprint is what a lab could leave in the process and in the kernel.
type footprint struct {
	descriptors, threads int
	devices, mounts      string
	children             string
	namespaces           []string
}

func takeFootprint(t *testing.T) footprint {
	t.Helper()
	list := func(pattern string) int {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return footprint{
		descriptors: list("/proc/self/fd/*"),
		threads:     list("/proc/self/task/*"),
		devices:     devicesIn(read("/proc/self/net/dev")),
		mounts:      read("/proc/self/mountinfo"),
		namespaces:  namespacesOfThreads(t),
		children:    childrenOfThreads(t),
	}
}

// childrenOfThreads returns the programs that this process has started and not yet waited for.
func childrenOfThreads(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var children strings.Builder
	for _, name := range names {
		list, _ := os.ReadFile(name) // a thread that has ended since has no such file
		children.Write(list)
	}
	return children.String()
}

// devicesIn keeps the names, without the counters that always change.
func devicesIn(table string) string {
	var names []string
	for line := range strings.Lines(table) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return strings.Join(names, " ")
}

// namespacesOfThreads returns the network namespaces that this process holds, by a thread or by a descriptor.
func namespacesOfThreads(t *testing.T) []string {
	t.Helper()
	var held []string
	for _, pattern := range []string{"/proc/self/task/*/ns/net", "/proc/self/fd/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, "net:") {
				held = append(held, target)
			}
		}
	}
	slices.Sort(held)
	return slices.Compact(held)
}

func TestFiftyTopologiesLeaveNothing(t *testing.T) {
	labtest.Require(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	buildAndClose(t, 0) // this creates what the runtime keeps for good
	before := takeFootprint(t)
	for seed := range uint64(50) {
		buildAndClose(t, seed+1)
	}
	leavesNothing(t, before)
}

// leavesNothing waits for what Close does not wait for: threads end a moment after what ran on them.
func leavesNothing(t *testing.T, before footprint) {
	t.Helper()
	var wrong string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if wrong = compare(before, takeFootprint(t)); wrong == "" {
			return
		}
	}
	t.Errorf("left behind: %s", wrong)
}

func compare(before, after footprint) string {
	switch {
	case after.descriptors > before.descriptors:
		return fmt.Sprintf("%d descriptors, %d before", after.descriptors, before.descriptors)
	case after.threads > before.threads+spareThreads:
		return fmt.Sprintf("%d threads, %d before", after.threads, before.threads)
	case after.devices != before.devices:
		return "devices " + after.devices
	case after.children != before.children:
		return "processes " + after.children
	case after.mounts != before.mounts:
		return "mounts " + after.mounts
	}
	for _, namespace := range after.namespaces {
		// A namespace that was there before may have gone: the thread that held it was still ending.
		if !slices.Contains(before.namespaces, namespace) {
			return fmt.Sprintf("namespace %s, %v before", namespace, before.namespaces)
		}
	}
	return ""
}

// spareThreads is how many idle threads the runtime may keep for later; a topology has more than ten.
const spareThreads = 20

// buildAndClose makes a topology with one of everything and a program that
// would run for long.
func buildAndClose(t *testing.T, seed uint64) {
	t.Helper()
	l := lab.New(seed)
	router, lan := l.Router("router"), l.LAN("lan")
	for _, host := range l.Hosts("host", 3) {
		l.Link(host, lan, link.Shape{Rate: 10 * link.Mbit})
	}
	l.Link(router, lan, link.Shape{})
	far := l.Host("far")
	l.Link(far, router, link.Shape{Delay: time.Millisecond})
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := far.SlowableDisk(link.MiB); err != nil {
		t.Error(err)
	}
	if err := far.Command("sleep", "1000").Start(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestLabsAtTheSameTimeDoNotMeet(t *testing.T) {
	_, a, b := pair(t, 1, link.Shape{})
	_, c, d := pair(t, 2, link.Shape{})
	if a.Addr() != c.Addr() {
		t.Fatalf("the labs differ in addresses, so this shows nothing")
	}
	first, second := packets(t, b, "9"), packets(t, d, "9")
	sendNumbered(t, packets(t, a, "9"), udpAddr(b, 9), 100, 10, 0)
	sendNumbered(t, packets(t, c, "9"), udpAddr(d, 9), 100, 20, 0)
	if one, two := len(receiveNumbered(t, first, patience/10)), len(receiveNumbered(t, second, patience/10)); one != 10 || two != 20 {
		t.Errorf("labs received %d and %d packets, want 10 and 20", one, two)
	}
}

func TestHostOfAClosedLabRefuses(t *testing.T) {
	labtest.Require(t)
	l := lab.New(1)
	a := l.Host("a")
	wire := l.Link(a, l.Host("b"), link.Shape{Delay: time.Millisecond})
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err == nil {
		t.Error("a lab was started twice")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]error{
		"run a program": a.Command("true").Run(),
		"run a func":    a.Do(func() error { return nil }),
		"set a sysctl":  a.Set("net/ipv4/ip_forward", "1"),
		"cut a link":    wire.Cut(),
	} {
		if refused == nil {
			t.Errorf("%s: done on a closed lab", name)
		}
	}
	if _, err := a.Disk(link.MiB); err == nil {
		t.Error("a disk was mounted on a closed lab")
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	labtest.Require(t)
	before := takeFootprint(t)
	l := lab.New(1)
	a := l.Host("a")
	l.Link(a, l.Host("b"), link.Shape{MTU: 10}) // below what IPv4 allows
	if err := l.Start(); err == nil {
		t.Error("a link with an MTU of 10 was built")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	leavesNothing(t, before)
}
