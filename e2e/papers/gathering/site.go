package gathering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Site is a running case.
type Site struct {
	Case
	*network

	fleet    *fleet.Fleet
	operator *gather.Client
	start    time.Time
	cancel   context.CancelFunc
	ctx      context.Context
	running  sync.WaitGroup

	recorder *measure.Recorder
	stop     func()
	queue    *measure.Series
	carried  *measure.Series
	dropped  *measure.Series
	offered  *measure.Series

	mu      sync.Mutex
	rounds  []gather.Snapshot
	failed  []error
	foreign []*atomic.Int64
}

// sample is the length of a sample of the link's counters.
const sample = 500 * time.Millisecond

// Start builds the network and starts the gatherer. Close has to be called even after an error.
func Start(ctx context.Context, c Case) (*Site, error) {
	s := &Site{Case: c, network: c.build()}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.Start(); err != nil {
		return s, err
	}
	var err error
	if s.fleet, err = fleet.Start(ctx, s.manager); err != nil {
		return s, err
	}
	if _, err := s.fleet.Gatherer(ctx, s.server, c.policy(), append([]string{"--controller", c.Controller}, c.Flags...)...); err != nil {
		return s, err
	}
	if s.operator, err = s.fleet.Uploader(ctx, fleet.Dialer{Host: s.server}, s.server, ""); err != nil {
		return s, err
	}
	s.start = time.Now()
	s.recorder = &measure.Recorder{Interval: sample}
	s.queue, s.carried = s.access.TrackQueue(s.recorder), s.access.TrackCarried(s.recorder)
	s.dropped, s.offered = s.access.TrackDropped(s.recorder)
	s.stop = lab.Record(s.recorder)
	s.running.Go(s.watch)
	return s, nil
}

// watch keeps what the gatherer reports after every round.
func (s *Site) watch() {
	for round, err := range s.operator.Watch(s.ctx) {
		if err != nil {
			s.fail(fmt.Errorf("watch the gatherer: %w", err))
			return
		}
		s.mu.Lock()
		s.rounds = append(s.rounds, round)
		s.mu.Unlock()
	}
}

// fail notes an error, unless the site is ending.
func (s *Site) fail(err error) {
	if err == nil || s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, err)
}

// Now returns how long the site has run.
func (s *Site) Now() time.Duration { return time.Since(s.start) }

// Until waits until the site has run for so long.
func (s *Site) Until(at time.Duration) error {
	timer := time.NewTimer(at - s.Now())
	defer timer.Stop()
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-timer.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		return errors.Join(s.failed...)
	}
}

// Stream makes a terminal upload without end, until leave is called.
func (s *Site) Stream(terminal string) (leave func(), err error) { return s.upload(terminal, greedy) }

// Record makes a terminal upload pictures of so many bytes, so often, until leave is called.
func (s *Site) Record(terminal string, picture int, every time.Duration) (leave func(), err error) {
	return s.upload(terminal, func(ctx context.Context, client *gather.Client) error { return record(ctx, client, picture, every) })
}

func (s *Site) upload(terminal string, do func(ctx context.Context, client *gather.Client) error) (leave func(), err error) {
	client, err := s.fleet.Uploader(s.ctx, s.dialer(terminal), s.server, terminal)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.running.Go(func() {
		defer client.Close()
		if err := do(ctx, client); ctx.Err() == nil {
			s.fail(fmt.Errorf("stream of %s: %w", terminal, err))
		}
	})
	return cancel, nil
}

func (s *Site) dialer(terminal string) fleet.Dialer {
	return fleet.Dialer{Host: s.hosts[terminal], Controls: []lab.Control{lab.Congestion(s.Congestion)}}
}

// Interfere makes another machine send as much as it can over TCP, until leave is called.
func (s *Site) Interfere(name string) (leave func(), err error) {
	source, err := traffic.Serve(s.hosts[name], 80, s.Congestion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	bulk := &traffic.Bulk{Source: source, To: s.end(name)}
	s.foreign = append(s.foreign, &bulk.Received)
	s.running.Go(func() {
		_ = bulk.Run(ctx) // it ends by being cancelled
		_ = source.Close()
	})
	return cancel, nil
}

// Broadcast makes another machine send UDP by a schedule, counted from now.
func (s *Site) Broadcast(name string, schedule []traffic.Period) {
	udp := &traffic.Interference{From: s.hosts[name], To: s.end(name), Port: 9, Packet: 1500, Schedule: schedule}
	s.running.Go(func() {
		if err := udp.Run(s.ctx); err != nil {
			s.fail(err)
		}
	})
}

func (s *Site) end(name string) *lab.Host {
	for _, o := range s.Others {
		if o.Name == name && o.Past {
			return s.past
		}
	}
	return s.server
}

// SetPolicy replaces the policy.
func (s *Site) SetPolicy(policy gather.Policy) error {
	_, err := s.operator.SetPolicy(s.ctx, policy, 0)
	return err
}

// Carry changes the rate of the link that all share.
func (s *Site) Carry(rate link.Rate) error { return s.access.Step(rate) }

// Answer changes the delay of what a terminal is sent, such as acknowledgements.
func (s *Site) Answer(terminal string, delay time.Duration) error {
	return s.back[terminal].Change(func(shape *link.Shape) { shape.Delay = delay })
}

// Close ends everything.
func (s *Site) Close() error {
	s.cancel()
	s.running.Wait()
	var errs []error
	if s.stop != nil {
		s.stop()
	}
	if s.operator != nil {
		errs = append(errs, s.operator.Close())
	}
	if s.fleet != nil {
		errs = append(errs, s.fleet.Close())
	}
	return errors.Join(append(errs, s.Lab.Close())...)
}

// End ends everything, and returns what was seen.
func (s *Site) End() (*Seen, error) {
	seen := &Seen{Case: s.Case, Dropped: s.access.Read().Count.Overflowed.Packets, Late: s.access.Lateness(), Took: s.Now()}
	for _, received := range s.foreign {
		seen.Foreign += link.Bytes(received.Load())
	}
	err := s.Close()
	seen.Queue, seen.Utilization = s.queue.Slope(1), s.carried.Slope(8*100/float64(s.Access.Rate))
	seen.Overflowed, seen.Offered = *s.dropped, *s.offered
	seen.read(s.start, s.rounds)
	return seen, err
}
