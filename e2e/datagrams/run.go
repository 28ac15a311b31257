package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
)

// overTree sends a stream over session agents.
func overTree(ctx context.Context, seed uint64, loss float64, s spec) (result tally, err error) {
	n := newNetwork(seed, loss, 0)
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Start(); err != nil {
		return result, err
	}
	t, err := n.deploy(ctx, s)
	if t.fleet != nil {
		defer func() { err = errors.Join(err, t.close()) }()
	}
	if err != nil {
		return result, err
	}
	if err := t.wait(ctx, s); err != nil {
		return result, err
	}
	for _, process := range append([]*lab.Process{t.sender}, t.receivers...) {
		if err := result.read(process.Output()); err != nil {
			return result, err
		}
	}
	return result, nil
}

// port is the port of plain datagrams.
const port = 9000

// settle is how long the last datagrams may be under way.
const settle = 500 * time.Millisecond

// unicast sends the same stream as plain datagrams: each to one member after another.
func unicast(ctx context.Context, seed uint64, loss float64, s spec) (result tally, err error) {
	n := newNetwork(seed, loss, 0)
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Start(); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.count)*s.interval+settle)
	defer cancel()
	var sinks []*sink
	for _, host := range n.members {
		conn, err := host.ListenPacket(ctx, "udp4", host.At(port))
		if err != nil {
			return result, err
		}
		sinks = append(sinks, listen(ctx, conn))
	}
	conn, err := n.sender.ListenPacket(ctx, "udp4", n.sender.At(port))
	if err != nil {
		return result, err
	}
	defer conn.Close()
	plain(ctx, conn, n.members, s)
	<-ctx.Done()
	result = tally{sent: s.count, members: members}
	for _, sink := range sinks {
		result.ages = append(result.ages, sink.wait()...)
	}
	return result, nil
}

// plain sends plain datagrams at their times, until ctx is done or all are sent.
func plain(ctx context.Context, conn net.PacketConn, to []*lab.Host, s spec) {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for begun, i := time.Now(), 0; i < s.count; {
		for due := int(time.Since(begun)/s.interval) + 1; i < min(due, s.count); i++ {
			payload := make([]byte, s.size)
			binary.BigEndian.PutUint64(payload, uint64(time.Now().UnixNano()))
			for _, host := range to {
				// What the machine itself does not accept is lost, as on any link.
				_, _ = conn.WriteTo(payload, &net.UDPAddr{IP: host.Addr().AsSlice(), Port: port})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sink notes the ages of what comes.
type sink struct {
	conn    net.PacketConn
	ages    []time.Duration
	reading sync.WaitGroup
}

func listen(ctx context.Context, conn net.PacketConn) *sink {
	s := &sink{conn: conn}
	context.AfterFunc(ctx, func() { conn.Close() })
	s.reading.Go(s.read)
	return s
}

func (s *sink) read() {
	payload := make([]byte, 2048)
	for {
		if _, _, err := s.conn.ReadFrom(payload); err != nil {
			return
		}
		s.ages = append(s.ages, time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(payload)))))
	}
}

func (s *sink) wait() []time.Duration {
	s.reading.Wait()
	return s.ages
}
