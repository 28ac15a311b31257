package uplink

import (
	"context"
	"fmt"
	"time"
)

// talk is one side of a stream of messages and answers.
type talk[Q, A any] struct {
	next  func() Q
	take  func(A) error
	every func() time.Duration // the time until the next message
	wake  <-chan struct{}      // a message is due at once
}

// stream is the part of a gRPC stream that is used here.
type stream[Q, A any] interface {
	Send(Q) error
	Recv() (A, error)
}

// exchange sends a message at once, and then whenever one is due, and takes each answer. It returns
// when the stream ends, the manager is silent, or take fails.
func exchange[Q, A any](ctx context.Context, over stream[Q, A], talk talk[Q, A]) error {
	// Until the first answer gRPC may still open the stream anew, and meanwhile Send blocks. So
	// nothing else is sent before that; otherwise silence would not be noticed.
	opened := over.Send(talk.next())
	e := &exchanging[Q, A]{
		talk: talk, over: over, answers: make(chan A), failed: make(chan error, 1), done: make(chan error, 1), sent: time.Now(),
		silence: time.NewTimer(patience), due: time.NewTimer(2 * patience), // not before the first answer
	}
	defer e.silence.Stop()
	defer e.due.Stop()
	go func() { e.failed <- e.receive(ctx) }()
	if opened != nil {
		return e.reason()
	}
	for {
		if err := e.step(); isTooLarge(err) { // the next report may be shorter
			return fmt.Errorf("%w: %s", errTooMuch, Words(err))
		} else if err != nil {
			return err
		}
	}
}

// exchanging is a stream in use; it belongs to the goroutine that takes the answers.
type exchanging[Q, A any] struct {
	talk[Q, A]
	over    stream[Q, A]
	answers chan A
	failed  chan error // why there are no more answers
	silence *time.Timer

	due       *time.Timer
	awake     <-chan struct{} // is wake while a message may be sent, else nil
	isSending bool
	done      chan error // what became of the message
	sent      time.Time  // when the last message was sent
}

// receive hands on answers until there are no more, and returns why.
func (e *exchanging[Q, A]) receive(ctx context.Context) error {
	for {
		answer, err := e.over.Recv()
		if err != nil {
			return err
		}
		select {
		case e.answers <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reason returns why a message could not be sent. Send only returns EOF; the reason comes from
// Recv, after the answers that came before.
func (e *exchanging[Q, A]) reason() error {
	for {
		select {
		case err := <-e.failed:
			return err
		case answer := <-e.answers:
			if err := e.take(answer); err != nil {
				return err
			}
		}
	}
}

// step does what is next.
func (e *exchanging[Q, A]) step() error {
	select {
	case err := <-e.failed:
		return err
	case <-e.silence.C:
		return errSilent
	case answer := <-e.answers:
		return e.answered(answer)
	case <-e.due.C:
		e.send()
	case <-e.awake:
		e.send()
	case err := <-e.done:
		if err != nil {
			return e.reason()
		}
		e.awake, e.isSending, e.sent = e.wake, false, time.Now()
		e.due.Reset(e.every())
	}
	return nil
}

// answered takes an answer. The first answer is taken before anything is reported.
func (e *exchanging[Q, A]) answered(answer A) error {
	e.silence.Reset(patience)
	err := e.take(answer)
	if !e.isSending {
		e.awake = e.wake
		e.due.Reset(time.Until(e.sent.Add(e.every())))
	}
	return err
}

// send sends a message in a goroutine of its own: a manager that has much to tell reads nothing while that is not taken,
// and both would wait for each other.
func (e *exchanging[Q, A]) send() {
	e.awake, e.isSending = nil, true
	e.due.Stop()
	message := e.next()
	go func() { e.done <- e.over.Send(message) }()
}
