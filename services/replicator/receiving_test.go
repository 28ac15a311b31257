package replicator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/replicator/receive"
)

// A LAN that cannot be heard for long is told of, and one that cannot for a moment is not, however often that is: session agents would carry
// all the rest.
func TestOnlyWhatIsNotHeardForLongIsToldOf(t *testing.T) {
	moment, hour := []time.Duration{0, 0, 0}, []time.Duration{time.Hour, time.Hour}
	for name, c := range map[string]struct {
		tries     []time.Duration // how long each goes well
		isUnheard bool
	}{
		"for a moment": {moment, false}, "for long": {make([]time.Duration, 12), true}, "again and again": {append(moment, append(hour, moment...)...), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
				j := &job{receiving: &replicav1.ReceiveReport{Replication: "r-1"}}
				tried := 0
				_, err := w.hearing(t.Context(), j, "rack1", func() (receive.Receipt, error) {
					if tried == len(c.tries) {
						return receive.Receipt{}, receive.ErrDamaged
					}
					time.Sleep(c.tries[tried])
					tried++
					return receive.Receipt{}, receive.ErrNoNetwork
				})
				if !errors.Is(err, receive.ErrDamaged) || j.receiving.GetUnheard() != c.isUnheard || j.receiving.GetDetail() != "" {
					t.Errorf("after %d tries %v: %v", tried, j.receiving, err)
				}
			})
		})
	}
}

// A replica to which none of the packets get, for its path carries smaller ones only, waits as one that hears nothing does, and says why: the
// managers have session agents carry it. It has not failed, nor is it tried again.
func TestNarrowPathWaitsForAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
		ctx, withdraw := context.WithCancel(t.Context())
		j, tried, ended := &job{ctx: ctx, receiving: &replicav1.ReceiveReport{Replication: "r-1"}}, 0, false
		go func() {
			_, err := w.hearing(ctx, j, "rack1", func() (receive.Receipt, error) {
				tried++
				w.turns(j.receiving, replicav1.ReplicaState_REPLICA_STATE_RECEIVING)
				return receive.Receipt{}, fmt.Errorf("%w: 1472 bytes", receive.ErrTooLarge)
			})
			w.failed(ctx, j, reasonOf(err), err, receive.Stats{})
			ended = true
		}()
		want := func(isEnded bool) {
			t.Helper()
			synctest.Wait()
			if state := j.receiving.GetState(); state != replicav1.ReplicaState_REPLICA_STATE_WAITING || tried != 1 || ended != isEnded || j.receiving.GetDetail() == "" {
				t.Errorf("after %d tries, ended %v: %v", tried, ended, j.receiving)
			}
		}
		time.Sleep(time.Hour)
		want(false)
		withdraw()
		want(true)
	})
}
