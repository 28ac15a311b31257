package api

import (
	"context"
	"time"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// attachment is where a node learns what it has to do, in messages T.
type attachment[T any] interface {
	// Next returns what has changed since the last call; the first time, all.
	Next() []T
	Wake() <-chan struct{}
	Ended() <-chan struct{}
}

// conversation is a stream on which a node reports, and is told what it has to do.
type conversation[Q, A, T any] struct {
	// answer answers a message; last says that nothing follows.
	answer func(Q) (answer A, last bool, err error)
	// empty makes a message that is no answer, for what there is to do.
	empty func() A
	// add puts what there is to do into a message.
	add func(A, T)
	// patience is how long the node may be silent; zero is for ever.
	patience time.Duration
}

// converse answers the messages of a stream, the first of which has been received already, and tells the node what it has to do as soon as that
// changes. The answer to the first message tells all that the node has to do.
func converse[Q, A, T any](stream interface {
	Context() context.Context
	Recv() (Q, error)
	Send(A) error
}, first Q, at attachment[T], c conversation[Q, A, T],
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
		if err := c.tell(stream.Send, answer, at.Next()); err != nil {
			return err
		}
		if c.patience > 0 {
			silence.Reset(c.patience)
		}
		for answered := false; !answered; {
			select {
			case <-stream.Context().Done():
				return endOfStream(stream.Context().Err())
			case <-at.Ended():
				return ledger.ErrNotLeading
			case <-silence.C:
				return daemon.ErrSilent
			case err := <-failed:
				return endOfStream(err)
			case <-at.Wake():
				if changes := at.Next(); changes != nil {
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

// tell sends a message with the first of what there is to do, and the others in messages of their own.
func (c conversation[Q, A, T]) tell(send func(A) error, message A, todo []T) error {
	if len(todo) > 0 {
		c.add(message, todo[0])
	}
	if err := send(message); err != nil || len(todo) < 2 {
		return err
	}
	return c.tell(send, c.empty(), todo[1:])
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
