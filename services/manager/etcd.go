package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/store"
)

func openExternal(ctx context.Context, env daemon.Env, config *StoreConfig) (*store.Store, error) {
	over := uplink.Over(env.Network)
	if config.CAFile == "" {
		return store.OpenExternal(ctx, config.Endpoints, nil, env.Log, over)
	}
	security, err := newEtcdSecurity(config, env.Log)
	if err != nil {
		return nil, fmt.Errorf("TLS for store.endpoints: %w", err)
	}
	return store.OpenExternal(ctx, config.Endpoints, security.usable.Load(), env.Log, over, grpc.WithTransportCredentials(security))
}

// etcdSecurity is TLS to an external etcd by files that are read at every handshake: its CA is renewed, too, and a manager runs for longer. A
// tls.Config alone cannot have that and still be checked by the standard library: its authorities are fixed, and what it tells a check of one's
// own has no server's name where that is an address.
type etcdSecurity struct {
	credentials.TransportCredentials
	config *StoreConfig
	log    *slog.Logger
	usable *atomic.Pointer[tls.Config] // what the files had last that can be used
}

func newEtcdSecurity(config *StoreConfig, log *slog.Logger) (*etcdSecurity, error) {
	s := &etcdSecurity{config: config, log: log, usable: new(atomic.Pointer[tls.Config])}
	if err := s.read(); err != nil {
		return nil, err
	}
	s.TransportCredentials = credentials.NewTLS(s.usable.Load())
	return s, nil
}

func (s *etcdSecurity) read() error {
	security, err := identity.PlainTLS(s.config.CAFile, s.config.CertFile, s.config.KeyFile)
	if err != nil {
		return err
	}
	s.usable.Store(security)
	return nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (s *etcdSecurity) ClientHandshake(ctx context.Context, authority string, plain net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := s.read(); err != nil {
		s.log.Warn("files for the external etcd cannot be used: what could be used last is", "error", err)
	}
	return credentials.NewTLS(s.usable.Load()).ClientHandshake(ctx, authority, plain)
}

// Clone implements credentials.TransportCredentials.
func (s *etcdSecurity) Clone() credentials.TransportCredentials {
	same := *s
	return &same
}
