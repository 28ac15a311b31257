package udp

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Outbox sends many runs with one system call, and never waits for room. It belongs to one
// goroutine.
type Outbox struct {
	socket *Socket
	out    outgoing // reused
}

// NewOutbox returns an outbox of a socket.
func NewOutbox(socket *Socket) *Outbox { return &Outbox{socket: socket} }

// TrySend sends the first of some runs, at least one of them, or returns why it could not.
func (o *Outbox) TrySend(runs []Run) (sent int, err error) {
	if runs[0].Count() > 1 && !o.socket.segment.Load() {
		return o.apart(runs[0])
	}
	o.out.reset(len(runs))
	for i, run := range runs {
		err := o.out.add(run, o.socket.isIPv4)
		if err != nil && i == 0 {
			return 0, o.socket.unsent(run, err)
		}
		if err != nil { // those before it go now
			break
		}
	}
	sent, err = o.socket.dispatch(&o.out, 0, gives)
	if err == nil {
		return sent, nil
	}
	// A datagram that is larger than the network carries is sent in fragments, but not as part of a run.
	if runs[0].Count() > 1 && (cannotCut(err) || errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.EINVAL)) {
		o.socket.segment.Store(false)
		return o.apart(runs[0])
	}
	return 0, o.socket.unsent(runs[0], err)
}

// apart sends the datagrams of a run one by one.
func (o *Outbox) apart(run Run) (sent int, err error) {
	run.Apart = true
	if err := o.socket.send(run, gives); err != nil {
		return 0, err
	}
	return 1, nil
}
