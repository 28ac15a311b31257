package roster_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// Without a grace, too, the first connection of an upload has its time to come, as over a long path. The uploads of a client that is gone
// are closed at once.
func TestUploadBeginsWithoutGrace(t *testing.T) {
	f := start(t, policy.Policy{}, func(env *roster.Env) { env.Grace = 0 })
	alice, bob := f.attach("alice"), f.attach("bob")
	f.open(alice, stream("s"))
	f.open(bob, stream("s"))
	want := func(what string, uploads int) {
		t.Helper()
		if open, _, _ := f.Known(); open != uploads {
			t.Errorf("%s: %d uploads are open, want %d", what, open, uploads)
		}
	}
	f.Sweep(time.Now().Add(10 * time.Second))
	want("they were just opened", 2)
	bob.Leave()
	f.Sweep(time.Now().Add(time.Second))
	want("one client is gone", 1)
	f.Sweep(time.Now().Add(time.Minute))
	want("nobody goes on", 0)
}
