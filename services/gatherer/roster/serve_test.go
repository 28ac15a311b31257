package roster_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/policy"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// A link does not wait for ever for one that cannot end, as the disk hangs; once that has ended, the next begins.
func TestLinkWaitsForTheLastAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, policy.Policy{}, nil)
		opened := f.open(f.attach("alice"), file("f", 1000))
		defer opened.Upload.Close()
		asked := &link.Asked{Hello: wire.Hello{Offer: true, Capability: opened.Ticket}, Peer: identity.Peer{ID: member("alice")}}
		release := opened.Upload.Hold()
		begun := time.Now()
		if err := opened.Upload.Serve(t.Context(), asked); err == nil || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %v, want that it is given up after 5 s", err, time.Since(begun))
		}
		release()
		f.must(opened.Upload.Serve(t.Context(), asked))
	})
}

// A link that was let in just before its upload is closed, fails or gets another ticket does not begin after that: nobody would end
// it, and closing an upload waits for its link.
func TestLinkThatComesTooLate(t *testing.T) {
	for what, end := range map[string]func(*roster.Upload){
		"closed": (*roster.Upload).Close,
		"failed": func(u *roster.Upload) { u.Fail(errors.New("the disk is broken")) },
		"fenced": (*roster.Upload).Fence,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, policy.Policy{}, nil)
				opened := f.open(f.attach("alice"), file("f", 1000))
				asked := &link.Asked{Hello: wire.Hello{Offer: true, Capability: opened.Ticket}, Peer: identity.Peer{ID: member("alice")}}
				f.must(opened.Upload.Serve(t.Context(), asked))
				release := opened.Upload.Hold()
				began := make(chan error, 1)
				go func() { began <- opened.Upload.Serve(t.Context(), asked) }()
				synctest.Wait() // it waits for the last link to end
				go end(opened.Upload)
				synctest.Wait() // the link has been cut, and has yet to end
				release()
				if err := <-began; !errors.Is(err, roster.ErrUpload) {
					t.Errorf("a link begins: %v", err)
				}
			})
		})
	}
}
