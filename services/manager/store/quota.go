package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"
)

const (
	// largePercent of the quota is where transactions of largeBytes and more are refused: the rest is for members that join, for what
	// registers, and for members that another agent is to feed.
	largePercent = 90
	largeBytes   = 64 << 10
	// endingPercent of the quota is where even deletions are refused, which write a little, too, and so are small changes that let something go
	// on until it ends.
	endingPercent = 150
	// alarmPercent of the quota is where etcd raises its alarm, which stops it for
	// good. It is far away: a database is known to have grown only after the fact.
	alarmPercent = 200
	// tidyPercent of the quota is from where it is worth giving back what is no longer used, and forgetting history early.
	tidyPercent = 50
	// tidyInterval is how often that is looked at.
	tidyInterval = 30 * time.Second
)

// databases is the embedded etcd, as far as the size of its database goes.
type databases interface {
	// Backend returns the database there is now. One of several members that was too far behind is sent another one whole, while it runs.
	Backend() backend.Backend
	// Defragment makes the file as large as what is in it.
	Defragment() error
}

// quotaKeeper refuses writes once etcd's database has reached the quota, and makes
// room again when history has been forgotten.
type quotaKeeper struct {
	of     databases
	client *clientv3.Client
	quota  int64
	log    *slog.Logger
	quit   chan struct{}
	done   sync.WaitGroup

	mu     sync.Mutex
	looked int64 // the revision at the last look
}

func newQuotaKeeper(of databases, client *clientv3.Client, quota int64, log *slog.Logger) *quotaKeeper {
	k := &quotaKeeper{of: of, client: client, quota: quota, log: log, quit: make(chan struct{})}
	k.done.Go(k.run)
	return k
}

func (k *quotaKeeper) stop() {
	close(k.quit)
	k.done.Wait()
}

// room says why nothing can be written, or nothing but what ends things.
func (k *quotaKeeper) room(want want) error {
	limit := int64(100)
	switch {
	case want.ending:
		limit = endingPercent
	case want.own >= largeBytes:
		limit = largePercent
	}
	if size := k.of.Backend().Size(); size > k.quota/100*limit {
		return fmt.Errorf("%w: it holds %d MiB of at most %d: delete groups that are not needed, and what they took, and earlier changes, is free again by itself within minutes",
			ErrFull, size>>20, k.quota>>20)
	}
	return nil
}

func (k *quotaKeeper) run() {
	ticker := time.NewTicker(tidyInterval)
	defer ticker.Stop()
	for {
		k.tidy()
		select {
		case <-k.quit:
			return
		case <-ticker.C:
		}
	}
}

// forget has etcd forget history early if that may be what fills it. What is new since the last look is kept: watchers that are further behind
// read all anew.
func (k *quotaKeeper) forget() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyInterval)
	defer cancel()
	now, err := k.client.Get(ctx, prefix, clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		return err
	}
	before := k.looked
	k.looked = now.Header.Revision
	if before == 0 || k.of.Backend().SizeInUse() < k.quota/100*tidyPercent {
		return nil
	}
	_, err = k.client.Compact(ctx, before, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) { // another manager was first
		return nil
	}
	return err
}

// tidy gives back what is no longer used, once that is much, and takes back an
// alarm that etcd raised all the same.
func (k *quotaKeeper) tidy() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.forget(); err != nil {
		k.log.Debug("the store's history could not be forgotten; trying again later", "error", err)
	}
	database := k.of.Backend()
	size, used := database.Size(), database.SizeInUse()
	if size < k.quota/100*tidyPercent || used > size/100*80 {
		return
	}
	if err := k.of.Defragment(); err != nil {
		k.log.Warn("the store could not be made smaller", "error", err)
		return
	}
	k.log.Info("the store was made smaller", "bytes_before", size, "bytes_after", k.of.Backend().Size())
	ctx, cancel := context.WithTimeout(context.Background(), tidyInterval)
	defer cancel()
	alarms, err := k.client.AlarmList(ctx)
	if err != nil || len(alarms.Alarms) == 0 {
		return
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			if _, err := k.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
				k.log.Warn("etcd's alarm could not be taken back", "error", err)
			}
		}
	}
}
