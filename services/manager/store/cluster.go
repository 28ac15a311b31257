package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// PeerName is a DNS name that the certificates of all managers of a clustered store have, and no others: by it these managers know each other.
const PeerName = "store.managers.groupcast.internal"

// Ports of a clustered store: between its members, and for those who want to become one.
const (
	peerPort   = "2380"
	clientPort = "2379"
)

const (
	// clusterTimeout is how long a member waits for enough others, as after a stop of all.
	clusterTimeout = 10 * time.Minute
	// clusterRetry is the pause before others are asked again.
	clusterRetry = 500 * time.Millisecond
	// keptForOthers is how many transactions each member keeps in memory for a member that is behind. One that is further behind is sent the
	// whole database.
	keptForOthers = 250
	// askTimeout is how long a question to the others may take.
	askTimeout = 5 * time.Second
)

// Cluster makes the embedded store one of several, each in the process of a manager.
type Cluster struct {
	// Self is this member's DNS name. Seed is one that has the addresses of all members there are.
	Self, Seed string
	// Listen is the host to listen on; empty is everywhere.
	Listen string
	// Found says that there is no store yet, and that this member is to found it.
	Found bool
	// Lookup finds the addresses of a host; nil asks the resolver of this machine.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// CertificateFile, KeyFile and AuthorityFile are read at every handshake.
	CertificateFile, KeyFile, AuthorityFile string
}

// OpenCluster opens the store in a directory of this machine as a member of a cluster. A member without anything on its disk joins the others.
// It first learns all that they have, and votes only then; so the others are never fewer than they were.
func OpenCluster(ctx context.Context, dir string, cluster Cluster, log *slog.Logger) (*Store, error) {
	asking, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	members := ""
	_, err := os.Stat(filepath.Join(dir, "member", "wal"))
	if errors.Is(err, fs.ErrNotExist) { // only then: a disk that does not answer may have everything
		members, err = cluster.enter(asking, log)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	waiting := time.AfterFunc(askTimeout, func() { log.Info("waiting for other managers", "to", "be enough for their store") })
	defer waiting.Stop()
	store, err := openEmbedded(ctx, dir, log, func(config *embed.Config) { cluster.configure(config, members) }, clusterTimeout)
	if err != nil {
		return nil, err
	}
	if err := cluster.vote(asking, store.client, log); err != nil {
		store.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	store.shared, store.member = true, cluster.Self
	return store, nil
}

func (c Cluster) url(host, port string) url.URL {
	return url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}
}

// configure makes a lone etcd one of several. members says who the members are if this member's own disk does not.
func (c Cluster) configure(config *embed.Config, members string) {
	listen := c.Listen
	if listen == "" {
		listen = "::"
	}
	config.Name = c.Self
	config.ListenPeerUrls = []url.URL{c.url(listen, peerPort)}
	config.ListenClientUrls = []url.URL{c.url(listen, clientPort)}
	config.AdvertisePeerUrls = []url.URL{c.url(c.Self, peerPort)}
	config.AdvertiseClientUrls = []url.URL{c.url(c.Self, clientPort)}
	config.InitialCluster = config.InitialClusterFromName(c.Self)
	if members != "" {
		config.InitialCluster, config.ClusterState = members, embed.ClusterStateFlagExisting
	}
	config.SnapshotCatchUpEntries = keptForOthers
	config.TickMs, config.ElectionMs = 100, 1000 // a network lies between, and a disk that may be slow
	config.PeerTLSInfo, config.ClientTLSInfo = c.security(), c.security()
	config.EnableGRPCGateway = false
}

// security lets in, and believes, only managers, which have PeerName: agents and members have certificates of the same CA.
func (c Cluster) security() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile: c.CertificateFile, KeyFile: c.KeyFile, TrustedCAFile: c.AuthorityFile,
		ClientCertAuth: true, AllowedHostnames: []string{PeerName}, ServerName: PeerName,
		SkipClientSANVerify: true, MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
	}
}

// clientSecurity is for asking the others: etcd's client would take the address that it dials for their name.
func (c Cluster) clientSecurity() (*tls.Config, error) {
	config, err := c.security().ClientConfig()
	if err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = true // #nosec G402 -- replaced by VerifyConnection
	config.VerifyPeerCertificate = nil
	config.VerifyConnection = func(state tls.ConnectionState) error {
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: config.RootCAs, DNSName: PeerName})
		return err
	}
	return config, nil
}

// others returns a client of whichever members of the cluster answer.
func (c Cluster) others(ctx context.Context, log *slog.Logger) (*clientv3.Client, error) {
	security, err := c.clientSecurity()
	if err != nil {
		return nil, err
	}
	resolving, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lookup := c.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	addresses, err := lookup(resolving, c.Seed)
	if err != nil {
		return nil, err
	}
	own, _ := lookup(resolving, c.Self)
	var endpoints []string
	for _, address := range addresses {
		if len(own) == 0 || address != own[0] {
			at := c.url(address, clientPort)
			endpoints = append(endpoints, at.String())
		}
	}
	if len(endpoints) == 0 {
		return nil, errors.New("nobody else is there")
	}
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: security, DialTimeout: askTimeout,
		Logger: zap.New(quietCore{log.With("component", "etcd")}),
	})
}

// insist asks the others until one of them does what is wanted.
func (c Cluster) insist(ctx context.Context, log *slog.Logger, what string, ask func(context.Context, *clientv3.Client) error) error {
	for told := false; ; told = true {
		client, err := c.others(ctx, log)
		if err == nil {
			asking, cancel := context.WithTimeout(ctx, askTimeout)
			err = ask(asking, client)
			cancel()
			client.Close()
		}
		if err == nil {
			return nil
		}
		if !told {
			log.Info("waiting for other managers", "to", what, "error", err)
		}
		select {
		case <-ctx.Done():
			if ctx.Err() == context.Canceled { // this manager is stopped
				return ctx.Err()
			}
			return fmt.Errorf("%s: no other manager helped within %v: %w", what, clusterTimeout, err)
		case <-time.After(clusterRetry):
		}
	}
}
