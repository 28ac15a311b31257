package replicas_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// figure is what 'groupcast soma figures' says of a transfer that it has drawn.
type figure struct {
	Name    string   `json:"name"`
	Server  string   `json:"server"`
	Group   string   `json:"group"`
	Windows int      `json:"windows"` // of the paper's profile alone
	Largest int      `json:"largest_window"`
	DATA    int      `json:"data"`
	Files   []string `json:"files"`
}

// soma returns a command of 'groupcast soma' on a host.
func soma(t *testing.T, host *lab.Host, arguments ...string) *lab.Process {
	t.Helper()
	return host.Command(testprocess.Binary(t, commands+"cli/cmd/groupcast"), append([]string{"soma"}, arguments...)...)
}

// draw draws the one transfer of a file.
func draw(t *testing.T, host *lab.Host, name string) figure {
	t.Helper()
	p := soma(t, host, "figures", name, "-o", "json", "--piece", "1ms", "--into", t.TempDir())
	if err := p.Run(); err != nil {
		t.Fatalf("%v: %s", err, p.Output())
	}
	return figureOf(t, p.Output())
}

// figureOf reads what is said of one transfer, and sees that it is drawn.
func figureOf(t *testing.T, said string) figure {
	t.Helper()
	var all []figure
	if err := json.Unmarshal([]byte(said), &all); err != nil || len(all) != 1 || len(all[0].Files) != 2 {
		t.Fatalf("%v: of one transfer it said %s", err, said)
	}
	for _, name := range all[0].Files {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "<path d") {
			t.Errorf("nothing is drawn in %s: %v", name, err)
		}
	}
	return all[0]
}

// watch starts a command that watches a host's interface, and returns when it does.
func watch(t *testing.T, host *lab.Host, command string, more ...string) *lab.Process {
	t.Helper()
	already := len(watching(t, host))
	p := soma(t, host, append([]string{command, "-i", "eth0"}, more...)...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "an interface is watched", func() bool { return len(watching(t, host)) > already })
	return p
}

// unwatch ends commands that watch a host's interface when they have taken all that has passed.
func unwatch(t *testing.T, host *lab.Host, commands ...*lab.Process) {
	t.Helper()
	await(t, "all packets are taken", func() bool {
		for _, unread := range watching(t, host) {
			if unread != "0" {
				return false
			}
		}
		return true
	})
	for _, p := range commands {
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %s", err, p.Output())
		}
	}
}

// watcher matches a socket in a kernel's list that takes packets of one interface, and how many bytes of these are not read yet.
var watcher = regexp.MustCompile(`(?m)^\S+ +\d+ +\d+ +0003 +[1-9]\d* +\d+ +(\d+) `)

// watching returns how much each socket that takes packets from a host's interface has not read yet.
func watching(t *testing.T, host *lab.Host) (unread []string) {
	t.Helper()
	err := host.Do(func() error {
		list, err := os.ReadFile("/proc/thread-self/net/packet")
		for _, one := range watcher.FindAllStringSubmatch(string(list), -1) {
			unread = append(unread, one[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return unread
}

// await waits until something holds: the states of other processes are polled.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}
