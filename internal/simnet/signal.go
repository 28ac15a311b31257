package simnet

import "time"

// signal wakes whoever waits for a change. It blocks on channels alone, so that
// a synctest bubble knows its waiters to be idle.
type signal struct{ changed chan struct{} }

func (s *signal) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *signal) next() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// await gives up the lock until ready returns true.
func (n *Network) await(s *signal, ready func() bool) {
	for !ready() {
		changed := s.next()
		n.mu.Unlock()
		<-changed
		n.mu.Lock()
	}
}

// deadline is a time after which an operation fails.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set changes the deadline; its signal is woken when it has passed.
func (d *deadline) set(n *Network, at time.Time, s *signal) {
	d.stop()
	d.at = at
	s.wake()
	if at.IsZero() || d.passed() {
		return
	}
	d.timer = time.AfterFunc(time.Until(at), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		s.wake()
	})
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
