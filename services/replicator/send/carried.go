package send

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/multicast"
)

// NetworkError says that the network takes nothing: its interface is gone, or has no address, or carried nothing for as long as a
// receiver may be silent.
type NetworkError struct{ Err error }

func (e *NetworkError) Error() string { return e.Err.Error() }
func (e *NetworkError) Unwrap() error { return e.Err }

// network is how sending goes.
type network struct {
	hasCarried bool      // it took something before
	failing    time.Time // since when it takes nothing
	looked     time.Time // whether its interface was made anew
}

// lookEvery is how often it is looked whether the network interface was made anew that takes nothing.
const lookEvery = time.Second

// carried takes what came of sending, and returns it if it does not pass: an interface that is down for a
// moment comes back, and what was not sent meanwhile is repaired as what is lost on the way.
func (s *session) carried(err error) error {
	if err == nil {
		s.network = network{hasCarried: true}
		return nil
	}
	err = fmt.Errorf("send to %v: %w", s.config.Place.Group, err)
	if s.network.failing.IsZero() {
		s.network.failing = time.Now()
		s.env.Log.Warn("the network takes nothing", "error", err)
	}
	if now := time.Now(); now.Sub(s.network.looked) >= lookEvery {
		s.network.looked = now
		s.stand()
	}
	if !s.network.hasCarried || errors.Is(err, unix.EMSGSIZE) || time.Since(s.network.failing) > s.config.Patience {
		return &NetworkError{err}
	}
	return nil
}

// stand has what is sent go over the network interface as it is now, and other senders be heard there.
func (s *session) stand() {
	now, err := multicast.FootingOf(s.socket, s.config.Place)
	if err != nil || now == s.footing {
		return
	}
	if s.others != nil {
		err = now.Hear(s.others, s.config.Place.Group)
	}
	if err == nil {
		err = now.Carry(s.socket)
	}
	if err == nil {
		s.footing = now
		s.env.Log.Info("the network interface was made anew", "interface", s.config.Place.Interface)
	}
}
