// Command datagrams measures streams in datagrams on the network lab: how much of them members get,
// and how old it is, over links that lose, with and without parity, compared with plain datagrams;
// and what they leave to TCP.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	testprocess.Remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, "datagrams:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("datagrams", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "from which all that is random follows")
	duration := flags.Duration("duration", 30*time.Second, "of each stream")
	interval := flags.Duration("interval", 20*time.Millisecond, "between datagrams")
	size := flags.Int("size", 1000, "bytes of a datagram")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	s := spec{count: int(*duration / *interval), size: *size, interval: *interval, fresh: time.Second}
	return errors.Join(losses(ctx, *seed, s), neighbours(ctx, *seed, *duration))
}

// losses measures how much of a stream arrives over links that lose.
func losses(ctx context.Context, seed uint64, s spec) error {
	fmt.Println("| loss of every link | way | delivered | recovered | age: half, 95 %, 99 % | held back | datagrams that agents and sender sent, for each delivered |")
	fmt.Println("|---:|---|---:|---:|---:|---:|---:|")
	for _, loss := range []float64{0, 0.01, 0.05} {
		protected := s
		protected.data, protected.parity = 10, 2
		for _, way := range []struct {
			name string
			run  func(context.Context, uint64, float64, spec) (tally, error)
			spec
		}{{"plain, to each member", unicast, s}, {"tree", overTree, s}, {"tree, parity 10+2", overTree, protected}} {
			t, err := way.run(ctx, seed, loss, way.spec)
			if err != nil {
				return fmt.Errorf("%s with a loss of %v: %w", way.name, loss, err)
			}
			fmt.Printf("| %g %% | %s | %.2f %% | %.2f %% | %.1f, %.1f, %.1f ms | %d | %s |\n", 100*loss, way.name, 100*t.delivered(),
				100*float64(t.recovered)/float64(t.sent*t.members), milliseconds(t.age(0.5)), milliseconds(t.age(0.95)), milliseconds(t.age(0.99)),
				t.held, t.effort())
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
