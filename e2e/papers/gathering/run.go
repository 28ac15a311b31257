package gathering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Script is what happens at a started site: it returns when the case is over.
type Script func(s *Site) error

// Run starts a case, runs the script, and returns what was seen.
func Run(ctx context.Context, c Case, script Script) (*Seen, error) {
	s, err := Start(ctx, c)
	if err == nil {
		err = script(s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", c.Controller, c.Congestion, errors.Join(err, s.Close()))
	}
	return s.End()
}

// together is how many networks run at the same time: with more, two processors would be late.
const together = 2

// Beside runs cases two at a time, each in a network of its own, so that whatever else the machine does affects both alike.
func Beside(ctx context.Context, cases []Case, script Script) ([]*Seen, error) {
	all, errs := make([]*Seen, len(cases)), make([]error, len(cases))
	for first := 0; first < len(cases); first += together {
		var group sync.WaitGroup
		for i := first; i < min(first+together, len(cases)); i++ {
			group.Go(func() { all[i], errs[i] = Run(ctx, cases[i], script) })
		}
		group.Wait()
	}
	return all, errors.Join(errs...)
}

// StreamAll makes every terminal upload without end.
func (s *Site) StreamAll() error {
	for _, t := range s.Terminals {
		if _, err := s.Stream(t.Name); err != nil {
			return err
		}
	}
	return nil
}

// Greedy makes all others send as much as they can, from one time to another.
func (s *Site) Greedy(from, until time.Duration) error {
	if len(s.Others) == 0 {
		return nil
	}
	if err := s.Until(from); err != nil {
		return err
	}
	var leaves []func()
	for _, o := range s.Others {
		leave, err := s.Interfere(o.Name)
		if err != nil {
			return err
		}
		leaves = append(leaves, leave)
	}
	err := s.Until(until)
	for _, leave := range leaves {
		leave()
	}
	return err
}
