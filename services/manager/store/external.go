package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// dialTimeout is how long an external etcd may take to answer at the start.
const dialTimeout = 10 * time.Second

// OpenExternal opens the store in an etcd cluster. A nil TLS configuration stands for plain TCP.
func OpenExternal(ctx context.Context, endpoints []string, tlsConfig *tls.Config, log *slog.Logger, dial ...grpc.DialOption) (*Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: tlsConfig, DialTimeout: dialTimeout,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second, DialOptions: dial,
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
	return &Store{
		commits: make(chan struct{}, maxCommits),
		client:  client,
		room:    func(bool) error { return nil }, // the cluster says so itself
		failed:  make(chan error),
		close:   sync.OnceFunc(func() { client.Close() }),
	}, nil
}
