package manager_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// wait lets time pass in which something must not happen.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// freeze stops a process, and proves it.
func freeze(t *testing.T, p *managertest.Process) {
	t.Helper()
	p.Signal(t, syscall.SIGSTOP)
	eventually(t, 5*time.Second, "the process is frozen", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		return err == nil && stateIn(string(text)) == 'T'
	})
}

func thaw(t *testing.T, p *managertest.Process) {
	t.Helper()
	p.Signal(t, syscall.SIGCONT)
}

// stateIn returns the state of a process, the field after its name in parentheses.
func stateIn(stat string) byte {
	for i := len(stat) - 3; i >= 0; i-- {
		if stat[i] == ')' {
			return stat[i+2]
		}
	}
	return 0
}

// eventually waits for something to become true.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	deadline := time.After(within)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", within, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func mustRead(t testing.TB, access string) sdk.Config {
	t.Helper()
	config, err := managertest.ReadConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
