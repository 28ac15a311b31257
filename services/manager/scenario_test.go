package manager_test

import (
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
