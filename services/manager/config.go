package manager

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/replication"
)

// Config is the manager's configuration.
type Config struct {
	daemon.CommonConfig

	Name       string            `json:"name" usage:"name of this manager, a DNS label; unique among the managers of one store"`
	GRPC       daemon.GRPCConfig `json:"grpc"`
	Address    string            `json:"address" usage:"host:port where other managers reach this one, an IPv6 address in brackets; empty is the gRPC port on loopback"`
	Store      StoreConfig       `json:"store"`
	Identity   IdentityConfig    `json:"identity"`
	Admin      AdminAccess       `json:"adminAccess"`
	Kubernetes KubernetesConfig  `json:"kubernetes"`

	Replication ReplicationConfig `json:"replication"`
}

// ReplicationConfig says where replications meet: each has a multicast group of its own on every LAN.
type ReplicationConfig struct {
	Groups string `json:"groups" usage:"network of IPv4 multicast addresses that replications take theirs from; an organization's own are in 239.192.0.0/14 (RFC 2365)"`
	Ports  string `json:"ports" usage:"UDP port that replications go to, or a range of them, as 7431-7440"`
}

// KubernetesConfig is for a manager that is a pod. The Secrets and ConfigMaps are those of its own namespace. Others make them, such as the
// chart, and the manager fills them.
type KubernetesConfig struct {
	CASecret         string   `json:"caSecret" usage:"Secret that the managers of one store share their CA through; empty leaves it in identity.caDir"`
	CAConfigMap      string   `json:"caConfigMap" usage:"ConfigMap to write the CA's certificate to, as ca.crt, for those who enroll"`
	OperatorSecret   string   `json:"operatorSecret" usage:"Secret to keep an operator's fresh credentials and config.yaml in; empty has none"`
	OperatorEndpoint string   `json:"operatorEndpoint" usage:"host:port in that config.yaml; empty is this manager's own address"`
	GatewaySecret    string   `json:"gatewaySecret" usage:"Secret to keep fresh credentials for the proxy in front of the managers in; empty has none"`
	GatewayNames     []string `json:"gatewayNames" usage:"DNS names and addresses of that proxy"`
	Audience         string   `json:"audience" usage:"audience that ServiceAccount tokens must be made for"`

	AgentAccounts      []string `json:"agentAccounts" usage:"ServiceAccounts, as namespace/name, whose pods are agents, each by its node's name; the token is checked by the API server"`
	GathererAccounts   []string `json:"gathererAccounts" usage:"ServiceAccounts whose pods are gatherers, each by its own name"`
	ReplicatorAccounts []string `json:"replicatorAccounts" usage:"ServiceAccounts whose pods are replicators, each by its node's name"`
	MemberAccounts     []string `json:"memberAccounts" usage:"ServiceAccounts whose pods are members, all of one account the same, with a group that it may join, as namespace/name=group; one entry for each group, * for all"`
}

// StoreConfig says where the state is kept.
type StoreConfig struct {
	DataDir   string        `json:"dataDir" usage:"directory of the embedded store"`
	Cluster   ClusterConfig `json:"cluster"`
	Endpoints []string      `json:"endpoints" usage:"external etcd, as https://host:2379; empty embeds one in this process"`
	CertFile  string        `json:"certFile" usage:"certificate for the external etcd"`
	KeyFile   string        `json:"keyFile" usage:"key for the external etcd"`
	CAFile    string        `json:"caFile" usage:"authorities of the external etcd, for endpoints with https://; empty leaves these to the authorities that this machine trusts"`
}

// ClusterConfig makes the embedded store one of several.
type ClusterConfig struct {
	Self  string `json:"self" usage:"DNS name of this manager; with it, the embedded store is one of a cluster, each in a manager, on ports 2379 and 2380; needs kubernetes.caSecret"`
	Seed  string `json:"seed" usage:"DNS name with the addresses of all managers"`
	First string `json:"first" usage:"DNS name of the manager that founds the cluster where there is none; the others join it"`
}

// IdentityConfig says who the managers are and how they certify others.
type IdentityConfig struct {
	TrustDomain string `json:"trustDomain" usage:"trust domain of all identities"`
	CADir       string `json:"caDir" usage:"directory of the built-in CA (ca.crt, ca.key); made where it is empty; the same for all managers of one store"`
	TLSDir      string `json:"tlsDir" usage:"directory with this manager's own tls.crt, tls.key and ca.crt from another issuer, reloaded when they change; empty has the built-in CA issue them"`
}

// AdminAccess gives the first operator a way in.
type AdminAccess struct {
	File string `json:"file" usage:"write a configuration for the groupcast command with an operator's identity to this file, and keep it fresh; empty writes none"`
}

// Defaults returns the configuration of a manager on its own.
func Defaults() *Config {
	return &Config{
		CommonConfig: daemon.CommonDefaults("127.0.0.1:7401"),
		Name:         "manager-0",
		GRPC:         daemon.GRPCConfig{Listen: "127.0.0.1:7400", MaxConnections: 20000},
		Store:        StoreConfig{DataDir: "groupcast-data/store", Endpoints: []string{}},
		Identity:     IdentityConfig{TrustDomain: identity.DefaultTrustDomain, CADir: "groupcast-data/ca"},
		Replication:  ReplicationConfig{Groups: "239.195.0.0/16", Ports: "7431"},
		Kubernetes: KubernetesConfig{
			Audience: "groupcast", GatewayNames: []string{},
			AgentAccounts: []string{}, GathererAccounts: []string{}, ReplicatorAccounts: []string{}, MemberAccounts: []string{},
		},
	}
}

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	var problems []error
	note := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	if err := identity.CheckName(c.Name); err != nil {
		problems = append(problems, fmt.Errorf("name: %w", err))
	}
	_, _, err := net.SplitHostPort(c.GRPC.Listen)
	note(err == nil, "grpc.listen is %q: want host:port, as in 127.0.0.1:7400", c.GRPC.Listen)
	if c.Address != "" {
		_, _, err := net.SplitHostPort(c.Address)
		note(err == nil, "address is %q: want host:port, as in manager-0:7400 or [2001:db8::7]:7400", c.Address)
	}
	note(c.GRPC.MaxConnections > 0, "grpc.maxConnections is %d: want at least 1", c.GRPC.MaxConnections)
	note(len(c.Store.Endpoints) > 0 || c.Store.DataDir != "", "store.dataDir is empty: name a directory, or store.endpoints of an external etcd")
	cluster := c.Store.Cluster
	note(cluster.Self == "" || cluster.Seed != "" && cluster.First != "", "store.cluster.self needs store.cluster.seed and store.cluster.first")
	note(cluster.Self == "" || c.Kubernetes.CASecret != "", "store.cluster needs kubernetes.caSecret, by which the managers agree on who founds it: elsewhere give them one external etcd (store.endpoints)")
	note(cluster.Self == "" || len(c.Store.Endpoints) == 0, "store.cluster and store.endpoints: name one")
	note((c.Store.CertFile == "") == (c.Store.KeyFile == ""), "store.certFile and store.keyFile go together: name both, or none")
	note(c.Store.CertFile == "" || c.Store.CAFile != "", "store.certFile needs store.caFile")
	problems = append(problems, c.Store.checkEndpoints())
	err = identity.CheckTrustDomain(c.Identity.TrustDomain)
	note(err == nil, "identity.trustDomain %v", err)
	note(c.Identity.CADir != "", "identity.caDir is empty: name a directory")
	_, err = replication.ParsePlaces(c.Replication.Groups, c.Replication.Ports)
	note(err == nil, "replication.%v", err)
	accounts := c.Kubernetes.accounts()
	for account, role := range accounts {
		namespace, name, ok := strings.Cut(account, "/")
		note(ok && namespace != "" && name != "", "kubernetes.%sAccounts: %q is not namespace/name, as groupcast/default", role, account)
	}
	_, err = c.Kubernetes.members()
	problems = append(problems, err)
	for _, account := range c.Kubernetes.services() {
		note(accounts[account] != identity.Member, "kubernetes.memberAccounts: pods of %s are no members: give them a ServiceAccount of their own", account)
	}
	note(len(accounts) == 0 || c.Kubernetes.Audience != "", "kubernetes.audience is empty: a token for anybody would be one for the managers")
	return errors.Join(problems...)
}

// checkEndpoints says why not all endpoints would be spoken to in the one way: etcd's client does with all as the scheme of the first says, and
// where that is http:// with no TLS, whatever files there are for it.
func (c *StoreConfig) checkEndpoints() error {
	scheme := func(endpoint string) string {
		before, _, has := strings.Cut(endpoint, "://")
		if !has {
			return ""
		}
		return strings.ToLower(before)
	}
	for _, endpoint := range c.Endpoints {
		if scheme(endpoint) != scheme(c.Endpoints[0]) {
			return fmt.Errorf("store.endpoints has %s and %s: want one scheme", c.Endpoints[0], endpoint)
		}
		if c.CAFile != "" && scheme(endpoint) == "http" {
			return fmt.Errorf("store.caFile is for TLS, and %s is spoken to without: name it with https://, or leave the file out", endpoint)
		}
	}
	return nil
}

// announced returns where other managers reach this one, which listens at an address. A configuration that has only a pod's IP, of either
// family, writes it in brackets, which are taken away if it is IPv4.
func (c *Config) announced(listening string) string {
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil { // none is configured
		return listening
	}
	return net.JoinHostPort(host, port)
}
