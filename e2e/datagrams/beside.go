package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

const (
	// narrow is the link from A to B, where a stream and a download meet.
	narrow = 10 * link.Mbit
	// warmUp is how long both run before they are measured.
	warmUp = 5 * time.Second
)

// greedy is a stream that wants twice as much as the narrow link has.
func greedy(duration time.Duration) spec {
	const interval = 500 * time.Microsecond
	return spec{count: int(duration / interval), size: 1100, interval: interval, fresh: 500 * time.Millisecond}
}

// stream begins a stream over a network, and returns a function that ends it.
type stream func(ctx context.Context, n *network, s spec) (end func() error, err error)

// beside measures a download over the narrow link: first alone, and then together with a stream.
func beside(ctx context.Context, seed uint64, duration time.Duration, begin stream) (alone, with link.Rate, err error) {
	n := newNetwork(seed, 0, narrow)
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Start(); err != nil {
		return 0, 0, err
	}
	source, err := traffic.Serve(n.server, port, "cubic")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	downloading, stop := context.WithCancel(ctx)
	download := traffic.Bulk{Source: source, To: n.client}
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = download.Run(downloading) }) // it ends by being stopped; what counts is what it got
	if alone, err = settled(ctx, &download, duration); err != nil {
		return 0, 0, err
	}
	end, err := begin(ctx, n, greedy(2*(warmUp+duration)))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	with, err = settled(ctx, &download, duration)
	return alone, with, err
}

func settled(ctx context.Context, download *traffic.Bulk, duration time.Duration) (link.Rate, error) {
	if _, goesOn := download.Goodput(ctx, warmUp); !goesOn {
		return 0, ctx.Err()
	}
	rate, goesOn := download.Goodput(ctx, duration)
	if !goesOn {
		return 0, ctx.Err()
	}
	return rate, nil
}

// ourStream is a stream over session agents.
func ourStream(ctx context.Context, n *network, s spec) (end func() error, err error) {
	t, err := n.deploy(ctx, s)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t.close, nil // the lab ends the processes
}

// plainStream is plain datagrams to one member beyond the narrow link.
func plainStream(ctx context.Context, n *network, s spec) (end func() error, err error) {
	conn, err := n.sender.ListenPacket(ctx, "udp4", n.sender.At(port))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		plain(ctx, conn, n.members[:1], s)
	}()
	return func() error {
		cancel()
		<-sent
		return conn.Close()
	}, nil
}

func neighbours(ctx context.Context, seed uint64, duration time.Duration) error {
	fmt.Printf("\n| beside a download over %v | the download alone | with it |\n|---|---:|---:|\n", narrow)
	for _, way := range []struct {
		name  string
		begin stream
	}{{"plain datagrams at twice that", plainStream}, {"a stream over agents that wants twice that", ourStream}} {
		alone, with, err := beside(ctx, seed, duration, way.begin)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		fmt.Printf("| %s | %.2f Mbit/s | %.2f Mbit/s |\n", way.name, mbit(alone), mbit(with))
	}
	return nil
}

func mbit(rate link.Rate) float64 { return float64(rate) / float64(link.Mbit) }
