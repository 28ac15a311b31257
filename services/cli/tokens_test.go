package cli

import (
	"bytes"
	"testing"
)

// A token that could not be used for any time is refused like every other lifetime that is too short: to managers, none is the longest.
func TestTokenWithoutLifetimeIsRefused(t *testing.T) {
	var said bytes.Buffer
	status := Main([]string{"groupcast", "--config", "nowhere.yaml", "token", "create", "alice", "--group", "models", "--lifetime", "0s"}, &said, &said)
	if want := "groupcast: --lifetime: is 0s: want 1s to 10m0s\n"; status != exitUsage || said.String() != want {
		t.Errorf("status %d: %q, want %q", status, said.String(), want)
	}
}
