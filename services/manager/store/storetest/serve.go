package storetest

import (
	"net"
	"net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"
)

// Serve runs an etcd in this process that answers clients on this listener only, over plain TCP, until it is stopped.
func Serve(t testing.TB, dir string, listener net.Listener) (stop func()) {
	t.Helper()
	config := embed.NewConfig()
	config.Name, config.Dir = "test", dir
	config.ListenPeerUrls, config.ListenClientUrls, config.AdvertiseClientUrls = nil, nil, []url.URL{}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.TickMs, config.ElectionMs = 10, 100
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	<-etcd.Server.ReadyNotify()
	serving := v3rpc.Server(etcd.Server, nil, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serving.Serve(listener) // only stop ends it
	}()
	return func() {
		serving.Stop()
		<-ended
		etcd.Close()
	}
}
