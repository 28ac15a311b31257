package daemon

import (
	"errors"
	"time"
)

// ErrSilent says that a stream was silent for longer than the patience with it.
var ErrSilent = errors.New("nothing was sent for too long")

// Receive waits for the next message of a stream, but no longer than patience. At a regular end of
// the stream it returns io.EOF. After an error the handler must return: that ends what still waits
// here.
func Receive[M any](stream interface{ Recv() (M, error) }, patience time.Duration) (M, error) {
	type received struct {
		message M
		err     error
	}
	next := make(chan received, 1)
	go func() {
		message, err := stream.Recv()
		next <- received{message, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-next:
		return r.message, r.err
	case <-timer.C:
		var none M
		return none, ErrSilent
	}
}
