package link

import (
	"errors"
	"fmt"
	"os"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Ended says that the other end ended the link, and why.
type Ended struct {
	Reason wire.Reason
	Text   string
	Offset uint64
}

func (e *Ended) Error() string {
	if e.Text == "" {
		return "link ended: " + e.Reason.String()
	}
	return fmt.Sprintf("link ended: %v: %s", e.Reason, e.Text)
}

// Portion is what a child can be sent now.
type Portion struct {
	// The bytes are in File from At on, Length of them; zero for none.
	File   *os.File
	At     uint64
	Length uint64
	// End is set when everything was sent before, and length and root are known.
	End *End
	// Changed is closed when another call may bring something else.
	Changed <-chan struct{}
	// TreeVersion is the version of the tree by which the child is fed.
	TreeVersion uint64
}

// End is the end of an object.
type End struct {
	Length uint64
	Root   [wire.RootSize]byte
}

// Supply is where a parent takes what it feeds one child. Stripes ask it one after
// the other, and send at the same time.
type Supply interface {
	// Next returns what there is for the child from an offset on, at most most bytes.
	// An error ends the link; a *Bye tells the child why.
	Next(offset, most uint64) (Portion, error)
	// Sent says that a portion from an offset on has been sent, or as much of it as was possible.
	Sent(offset uint64, portion Portion)
	// Acked says what the child acknowledges. An error ends the link.
	Acked(upTo uint64, level wire.Level) error
}

// Bye ends a link from this side.
type Bye struct {
	Reason wire.Reason
	Text   string
	Offset uint64 // what the BYE says; 0 stands for where the link was
}

func (b *Bye) Error() string { return fmt.Sprintf("%v: %s", b.Reason, b.Text) }

// IsElsewhere reports whether a link ended because the child asks again from another offset.
func IsElsewhere(err error) bool {
	var ended *Ended
	return errors.As(err, &ended) && ended.Reason == wire.Moved
}

// NotKept reports whether a link was not opened, or ended, because what the child asked for of a stream can be had nowhere any
// more; and from where on the stream can be had.
func NotKept(err error) (from uint64, is bool) {
	var refusal *wire.Refusal
	var ended *Ended
	var bye *Bye
	switch {
	case errors.As(err, &refusal) && refusal.Reason == wire.NotKept:
		return refusal.Offset, true
	case errors.As(err, &ended) && ended.Reason == wire.NotKept:
		return ended.Offset, true
	case errors.As(err, &bye) && bye.Reason == wire.NotKept:
		return bye.Offset, true
	}
	return 0, false
}
