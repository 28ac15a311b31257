// Package envoy draws the configuration of the proxy in front of the managers, from
// Envoy's own types: a field that does not exist does not compile.
//
// It has four listeners:
//
//   - 7480 passes TLS through to the managers, for the command and the SDKs: both ends check
//     each other, and Envoy sees nothing and can forge nothing.
//   - 7481 ends TLS with a gateway's certificate, asks for a member's or an operator's, and takes HTTP with
//     JSON, gRPC-Web and gRPC. Envoy tells the managers which certificate it was shown, and removes what
//     callers write there; the managers check that certificate again.
//   - 7483 passes TLS through to the gatherer, for its control; its data does not go through Envoy.
//   - 7482 is for probes and Prometheus: /ready and /stats/prometheus of the admin interface, which itself is on loopback.
package envoy

import (
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Options are what differs between installations.
type Options struct {
	// Managers is a DNS name with an address for each manager; ManagersPort is their port.
	Managers     string
	ManagersPort uint32
	// Gatherer is a DNS name of the gatherer; GathererPort is its port.
	Gatherer     string
	GathererPort uint32
	TrustDomain  string
	// Heap is how many bytes of memory Envoy may use for what callers make it keep.
	Heap uint64
	// Burst and PerSecond bound the HTTP requests that are accepted.
	Burst, PerSecond uint32
	// Dir contains the secrets' files and the descriptors, TLSDir the certificate.
	Dir, TLSDir string
	// Listen is the address of all listeners; GRPC, HTTP, Status and Gathering are their ports. Admin is the port on loopback.
	Listen                               string
	GRPC, HTTP, Status, Gathering, Admin uint32

	services []service // what the contracts have
}

// Defaults returns the chart's options, with stand-ins for those that its values decide.
func Defaults() Options {
	return Options{
		Managers: "managers.invalid", ManagersPort: 7400, Gatherer: "gatherer.invalid", GathererPort: 1000003, TrustDomain: "trust-domain.invalid", Heap: 1000000004, Burst: 1000001, PerSecond: 1000002,
		Dir: "/etc/envoy", TLSDir: "/etc/envoy-tls", Listen: "::", GRPC: 7480, HTTP: 7481, Status: 7482, Gathering: 7483, Admin: 9901,
	}
}

// bootstrap draws the configuration.
func bootstrap(o Options) *bootstrapv3.Bootstrap {
	return &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: "groupcast", Cluster: "groupcast"},
		Admin: &bootstrapv3.Admin{
			Address: address("127.0.0.1", o.Admin), IgnoreGlobalConnLimit: true,
		},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Listeners: []*listenerv3.Listener{o.passthrough(), o.http(), o.status(), o.gathering()},
			Clusters:  []*clusterv3.Cluster{o.managers(), o.managersTCP(), o.gatherer(), o.gathererTCP(), o.adminCluster()},
		},
		OverloadManager: o.overload(),
		StatsConfig: &metricsv3.StatsConfig{StatsTags: []*metricsv3.TagSpecifier{
			tag("grpc_method", `^cluster\.[^.]+\.grpc\.(?:[^.]+\.)+(([A-Za-z0-9_]+)\.)(?:\d+|success|failure|total|request_message_count|response_message_count|upstream_rq_time)$`),
			tag("grpc_service", `^cluster\.[^.]+\.grpc\.(((?:[a-z][a-z0-9_]*\.)+[A-Z][A-Za-z0-9_]*)\.)`),
		}},
	}
}

func tag(name, regex string) *metricsv3.TagSpecifier {
	return &metricsv3.TagSpecifier{TagName: name, TagValue: &metricsv3.TagSpecifier_Regex{Regex: regex}}
}

func address(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}, Ipv4Compat: host == "::",
	}}}
}

func packed(message proto.Message) *anypb.Any {
	any, err := anypb.New(message)
	if err != nil {
		panic("envoy: " + err.Error()) // only a message that is invalid in itself
	}
	return any
}

func seconds(n float64) *durationpb.Duration {
	return durationpb.New(time.Duration(n * float64(time.Second)))
}

func number(n uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(n) }

func prefix(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: text}}
}
