package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// sample is one delivery by one tool.
type sample struct {
	took      time.Duration   // until the last receiver had everything
	landed    []time.Duration // until each receiver had a file of the full size, in the order in which they had it; of a directory none
	processor time.Duration   // of all programs on all hosts, except control
	control   time.Duration   // of the manager, through which no byte of what is sent passes
	peak      link.Bytes      // of the program that needed most, except control
	relay     link.Bytes      // of the agent that needed most
	uplink    link.Bytes      // how many bytes the sender's link carried
	lost      link.Bytes      // how many bytes the receivers' cables lost
	dropped   float64         // share of the packets to the last receiver for which the queue before its cable had no room
}

// patience bounds one delivery.
const patience = 3 * time.Minute

// deliver builds a new network, has t deliver the file or directory, and checks every copy.
func deliver(ctx context.Context, t tool.Tool, p place, size link.Bytes, seed uint64) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := p.build(seed)
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.start(); err != nil {
		return s, err
	}
	job, want, err := furnish(n, p.directory, size, seed)
	if err != nil {
		return s, err
	}
	if closer, leaves := t.(tool.Closer); leaves {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	if err := t.Prepare(ctx, job); err != nil {
		return s, fmt.Errorf("prepare: %w", err)
	}
	if n.rate == 0 {
		warm, err := warmMemory(job)
		if err != nil {
			return s, err
		}
		defer func() { _ = warm.Close() }()
	}
	start := time.Now()
	landed := watch(job, start)
	if err := t.Deliver(ctx, job); err != nil {
		_ = landed()
		return s, fmt.Errorf("deliver: %w", err)
	}
	s.took = time.Since(start)
	s.landed = landed()
	s.uplink = n.uplink.Read().Count.Carried.Bytes
	for _, cable := range n.cables {
		count := cable.Read().Count
		s.lost += count.Lost.Bytes
		s.dropped = float64(count.Overflowed.Packets) / float64(max(count.Offered.Packets, 1))
	}
	if err := verify(job, want); err != nil {
		return s, err
	}
	n.EndPrograms()
	s.account(n)
	return s, nil
}

// account adds up what the ended programs have used.
func (s *sample) account(n *network) {
	var all measure.Result
	n.Report(&all)
	for _, program := range all.Programs {
		used := time.Duration(program.Processor * float64(time.Second))
		if program.Name == fleet.ManagerName {
			s.control += used
			continue
		}
		s.processor += used
		s.peak = max(s.peak, program.PeakMemory)
		if program.Name == fleet.AgentName {
			s.relay = max(s.relay, program.PeakMemory)
		}
	}
}

// watch notes when each receiver has a file of the full size. The returned function ends the watch,
// and returns the times since start in their order. A directory is there before, and nothing tells from outside when it has all.
func watch(job *tool.Job, start time.Time) (landed func() []time.Duration) {
	if job.Directory {
		return func() []time.Duration { return nil }
	}
	times := make([]time.Duration, 0, len(job.Receivers))
	waiting := slices.Clone(job.Receivers)
	look := func() {
		waiting = slices.DeleteFunc(waiting, func(receiver *lab.Host) bool {
			if !job.Has(receiver) {
				return false
			}
			times = append(times, time.Since(start))
			return true
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ticker := time.NewTicker(watchInterval); ctx.Err() == nil; {
			look()
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	return func() []time.Duration {
		cancel()
		watching.Wait()
		look()
		return times
	}
}

// watchInterval is the precision of the times of single receivers.
const watchInterval = 20 * time.Millisecond
