package roster_test

import (
	"errors"
	"testing"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// A client whose file the disk has no room for is shown as one that waits for it; others are not.
func TestWhoWaitsForRoomIsShown(t *testing.T) {
	disk := testdisk.Memory(t, "size=4m")
	f := start(t, policy.Policy{}, func(env *roster.Env) { env.Dir = disk })
	alice, bob := f.attach("alice"), f.attach("bob")
	f.open(bob, file("small", 1000))
	if _, err := f.Open(f.Context(), alice.ID, alice.Peer, file("large", 10<<20), false); !errors.Is(err, noroom.Err) {
		t.Fatalf("%v, want no room", err)
	}
	for _, one := range f.Clients() {
		if want := map[string]string{"alice": roster.DiskFull}[one.Name]; one.Paused != want {
			t.Errorf("%s waits for %q, want %q", one.Name, one.Paused, want)
		}
	}
}
