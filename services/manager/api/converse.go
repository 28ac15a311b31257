package api

import (
	"context"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// conversation is a stream on which a node reports, and is told what it has to do.
type conversation[Q, A any] struct {
	// answer answers a message; last says that nothing follows.
	answer func(Q) (answer A, last bool, err error)
	// empty makes a message that is no answer, for assignments.
	empty func() A
	// add puts assignments into a message.
	add func(A, *groupv1.Assignments)
	// patience is how long the node may be silent; zero is for ever.
	patience time.Duration
}

// converse answers the messages of a stream, the first of which was received
// already, and tells the node what it has to do as soon as that changes. The
// answer to the first message says all.
func converse[Q, A any](stream interface {
	Context() context.Context
	Recv() (Q, error)
	Send(A) error
}, first Q, attachment *delivery.Attachment, c conversation[Q, A],
) error {
	messages, failed := receiveAll(stream)
	answer, last, err := c.answer(first)
	if err != nil {
		return err
	}
	silence := time.NewTimer(c.patience)
	defer silence.Stop()
	if c.patience == 0 {
		silence.Stop()
	}
	for {
		if last {
			return stream.Send(answer)
		}
		if err := c.tell(stream.Send, answer, attachment.Next()); err != nil {
			return err
		}
		if c.patience > 0 {
			silence.Reset(c.patience)
		}
		for answered := false; !answered; {
			select {
			case <-stream.Context().Done():
				return endOfStream(stream.Context().Err())
			case <-attachment.Ended():
				return ledger.ErrNotLeading
			case <-silence.C:
				return errSilent
			case err := <-failed:
				return endOfStream(err)
			case <-attachment.Wake():
				if changes := attachment.Next(); changes != nil {
					err = c.tell(stream.Send, c.empty(), changes)
				}
			case message := <-messages:
				answer, last, err = c.answer(message)
				answered = true
			}
			if err != nil {
				return err
			}
		}
	}
}

// tell sends a message with the first of the assignments, and the others in messages of their own.
func (c conversation[Q, A]) tell(send func(A) error, message A, assignments []*groupv1.Assignments) error {
	if len(assignments) > 0 {
		c.add(message, assignments[0])
	}
	if err := send(message); err != nil || len(assignments) < 2 {
		return err
	}
	return c.tell(send, c.empty(), assignments[1:])
}

// receiveAll receives until the stream ends, as it does when its handler returns.
func receiveAll[Q any](stream interface {
	Context() context.Context
	Recv() (Q, error)
},
) (messages <-chan Q, failed <-chan error) {
	received, ended := make(chan Q), make(chan error, 1)
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case received <- message:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	return received, ended
}
