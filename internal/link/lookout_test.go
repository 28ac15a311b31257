package link

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Stripes break and come again for as long as a link lives, which may be weeks: those that have ended are forgotten. A
// stripe that is not needed for a while is not forgotten: otherwise what it had carried before would count again.
func TestLookoutForgetsWhatHasEnded(t *testing.T) {
	look := &lookout{seen: make(map[*Conn]unix.TCPInfo)}
	first, second := carrying(t), carrying(t)
	both := look.at(time.Now(), []*Conn{first, second})
	look.at(time.Now(), []*Conn{first})
	if again := look.at(time.Now(), []*Conn{first, second}); again.Sent != both.Sent {
		t.Errorf("%d segments were sent, and %d when one stripe had not been needed", both.Sent, again.Sent)
	}
	second.Close()
	for range 10 {
		other := carrying(t)
		look.at(time.Now(), []*Conn{first, other})
		other.Close()
	}
	look.at(time.Now(), []*Conn{first})
	if len(look.seen) != 1 {
		t.Errorf("%d stripes are remembered of the one that there is", len(look.seen))
	}
}

// carrying returns a stripe that has carried something.
func carrying(t *testing.T) *Conn {
	t.Helper()
	one, other := sockets(t)
	if _, err := one.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	return &Conn{raw: one, data: one}
}
