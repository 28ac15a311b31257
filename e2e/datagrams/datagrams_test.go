package main

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}

// patience bounds what a test waits for.
const patience = 2 * time.Minute

const seed = 1

// stream1000 sends 250 datagrams of 1000 bytes to each of four members.
func stream1000() spec {
	return spec{count: 250, size: 1000, interval: 20 * time.Millisecond, fresh: time.Second}
}

// If each of three links loses 3 %, plain datagrams lose one in eleven; with parity, from which
// every agent repairs, less than half of that is lost.
func TestParityRepairsEveryLink(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := stream1000()
	s.count *= 2 // with fewer, a single block beyond repair makes a difference
	bare, err := unicast(ctx, seed, 0.03, s)
	if err != nil {
		t.Fatal(err)
	}
	s.data, s.parity = 10, 2
	s.fresh = 3 * time.Second // a machine that stands still for a moment is not what this is about
	protected, err := overTree(ctx, seed, 0.03, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("plain: %.3f delivered; with parity: %.3f, %d recovered", bare.delivered(), protected.delivered(), protected.recovered)
	if bare.delivered() > 0.96 || bare.delivered() < 0.85 {
		t.Errorf("%.3f of plain datagrams are delivered: the network is not what it should be", bare.delivered())
	}
	if lost := 1 - protected.delivered(); lost > (1-bare.delivered())/2 {
		t.Errorf("%.3f are lost with parity, and %.3f without agents", lost, 1-bare.delivered())
	}
	if protected.recovered == 0 || protected.members != members {
		t.Errorf("%d are recovered at %d members", protected.recovered, protected.members)
	}
}

// Without loss all datagrams arrive, and cross the shared links only once.
func TestTreeCarriesOnce(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := overTree(ctx, seed, 0, stream1000())
	if err != nil {
		t.Fatal(err)
	}
	if result.delivered() < 0.99 {
		t.Errorf("%.3f is delivered", result.delivered())
	}
	// In the tree seven links carry each datagram; plain datagrams to four members cross three links each, which makes twelve.
	if carried := float64(result.carried) / float64(result.sent); carried > 7.2 {
		t.Errorf("%.1f datagrams on links for each that was sent", carried)
	}
}

// RFC 8085, section 3.1: a stream that wants twice as much as a link has leaves a download its share; plain datagrams do not.
func TestDownloadIsNotStarved(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const during = 5 * time.Second
	alone, with, err := beside(ctx, seed, during, plainStream)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("beside plain datagrams: %v of %v", with, alone)
	if with > alone/5 {
		t.Errorf("beside plain datagrams a download has %v of %v: the link is not full", with, alone)
	}
	if alone, with, err = beside(ctx, seed, during, ourStream); err != nil {
		t.Fatal(err)
	}
	t.Logf("beside a stream over agents: %v of %v", with, alone)
	if with < alone/4 {
		t.Errorf("beside a stream over agents a download has %v of %v", with, alone)
	}
	if with > alone*9/10 {
		t.Errorf("beside a stream over agents a download has %v of %v: the stream has nothing", with, alone)
	}
}

// A link that carries less than half of a stream costs those behind it what it cannot carry, and nobody else anything.
func TestNarrowLinkHoldsUpNobodyElse(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := spec{count: 4000, size: 1000, interval: 2 * time.Millisecond, fresh: 3 * time.Second}
	n := newNetwork(seed, 0, 2*link.Mbit)
	t.Cleanup(func() { n.Close() })
	labtest.Start(t, n.Lab)
	stream, err := n.deploy(ctx, s)
	if stream.fleet != nil {
		t.Cleanup(func() { stream.close() })
	}
	if err == nil {
		err = stream.wait(ctx, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, process := range stream.receivers {
		got := tally{sent: s.count}
		if err := got.read(process.Output()); err != nil {
			t.Fatal(err)
		}
		t.Logf("member%d: %.3f delivered, half of it within %v", i+1, got.delivered(), got.age(0.5))
		switch isBehind := i < members/2; {
		case isBehind && (got.delivered() < 0.1 || got.delivered() > 0.7):
			t.Errorf("member%d, behind a link that carries less than half, got %.3f", i+1, got.delivered())
		case !isBehind && got.delivered() < 0.99:
			t.Errorf("member%d, beside that link, got %.3f", i+1, got.delivered())
		}
	}
}

func TestTallyIsRead(t *testing.T) {
	var got tally
	for _, output := range []string{
		"sent 4\nlink a b 4 1 0 0\nlink b c 6 0 2 0\n", "got 0 1000\ngot 2 3000\naccount 2 1 1 1\n",
	} {
		if err := got.read(output); err != nil {
			t.Fatal(err)
		}
	}
	if got.delivered() != 0.5 || got.age(0.5) != 3*time.Millisecond || got.recovered != 1 || got.late != 1 || got.carried != 10 || got.held != 1 {
		t.Errorf("read %+v", got)
	}
	for _, wrong := range []string{"got x 1\n", "account 1 0 0 0\n", "sent\n"} {
		if (&tally{sent: 4}).read(wrong) == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}
