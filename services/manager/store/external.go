package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/groupcast/groupcast/internal/pause"
)

// dialTimeout is how long an external etcd may take to answer at the start.
const dialTimeout = 10 * time.Second

// largestElsewhere is how many bytes a transaction can have in an etcd with its default settings; it cannot be asked for them.
const largestElsewhere = 3 << 19

// reconnect bounds how long it takes until an etcd that was away is found again, however long it was away.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// OpenExternal opens the store in an etcd cluster. A nil TLS configuration stands for plain TCP.
func OpenExternal(ctx context.Context, endpoints []string, tlsConfig *tls.Config, log *slog.Logger, dial ...grpc.DialOption) (*Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: tlsConfig, DialTimeout: dialTimeout,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second, DialOptions: slices.Concat(dial, []grpc.DialOption{grpc.WithConnectParams(reconnect)}),
		Logger: zap.New(quietCore{log.With("component", "etcd")}),
	})
	if err != nil {
		return nil, fmt.Errorf("open store %v: %w", endpoints, err)
	}
	asking, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := client.Get(asking, prefix); err != nil {
		client.Close()
		if asking.Err() != nil && ctx.Err() == nil { // the client does not say what keeps it from etcd
			err = fmt.Errorf("no etcd answers within %v: look whether it runs there, has a quorum, and takes these certificates", dialTimeout)
		}
		return nil, fmt.Errorf("open store %v: %w", endpoints, err)
	}
	alarms := watchAlarms(client)
	return &Store{
		commits: make(chan struct{}, maxCommits),
		client:  client,
		room:    alarms.room,
		failed:  make(chan error),
		most:    largestElsewhere,
		shared:  true,
		close: sync.OnceFunc(func() {
			alarms.stop()
			client.Close()
		}),
	}, nil
}

// alarmPause is how often a cluster is asked whether it has room.
const alarmPause = 3 * time.Second

// alarms knows whether a cluster refuses writes because it has no room. The cluster tells that only to those that write.
type alarms struct {
	stop func()
	full atomic.Bool
}

func watchAlarms(client *clientv3.Client) *alarms {
	ctx, cancel := context.WithCancel(context.Background())
	a := new(alarms)
	var watching sync.WaitGroup
	watching.Go(func() {
		for a.look(ctx, client); pause.For(ctx, alarmPause); {
			a.look(ctx, client)
		}
	})
	a.stop = func() {
		cancel()
		watching.Wait()
	}
	return a
}

// alarmTimeout is how long a member of a cluster is asked for, even one at whose address nothing listens: the client waits until something does.
const alarmTimeout = 3 * time.Second

// look asks once. Members of a cluster that do not answer are passed over; if none answers, the cluster is taken to be as it was. Asking for
// the alarms themselves would be a write to the cluster's log.
func (a *alarms) look(ctx context.Context, client *clientv3.Client) {
	for _, endpoint := range client.Endpoints() {
		asking, cancel := context.WithTimeout(ctx, alarmTimeout)
		status, err := client.Status(asking, endpoint)
		cancel()
		if err == nil {
			a.full.Store(slices.ContainsFunc(status.Errors, func(said string) bool { return strings.Contains(said, nospace) }))
			return
		}
	}
}

// nospace is what an etcd calls its alarm.
var nospace = etcdserverpb.AlarmType_NOSPACE.String()

// room says why nothing can be written.
func (a *alarms) room(want) error {
	if a.full.Load() {
		return fmt.Errorf("%w: its etcd has raised the alarm NOSPACE: compact and defragment it, or raise its quota; then 'etcdctl alarm disarm'", ErrFull)
	}
	return nil
}
