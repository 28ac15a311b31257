package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Clusters.
const (
	managersCluster    = "managers"
	tcpCluster         = "managers_tcp"
	gathererCluster    = "gatherer"
	gathererTCPCluster = "gatherer_tcp"
	adminCluster       = "admin"
)

// base returns a cluster of all addresses of a DNS name. An address that fails repeatedly gets nothing for a while,
// but never more than half of them. Connections over one that fails its health checks are ended, so that they come
// back over another.
func base(name, host string, port uint32) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name,
		ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name: "envoy.clusters.dns", TypedConfig: packed(&dnsv3.DnsCluster{DnsRefreshRate: seconds(2)}),
		}},
		ConnectTimeout:                seconds(1),
		PerConnectionBufferLimitBytes: number(1 << 20),
		LoadAssignment:                endpoints(name, address(host, port)),
		OutlierDetection: &clusterv3.OutlierDetection{
			Consecutive_5Xx: number(5), Interval: seconds(2), BaseEjectionTime: seconds(5), MaxEjectionPercent: number(50),
		},
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
			atOnce(corev3.RoutingPriority_DEFAULT, maxCalls), atOnce(streams, maxConnections),
		}},
		IgnoreHealthOnHostRemoval:           true,
		CloseConnectionsOnHostHealthFailure: true,
		CommonLbConfig:                      &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: seconds(0)}, // what is found out takes effect at once
	}
}

// maxCalls is how many calls may be in progress at once whose answers Envoy holds completely before it passes them on. An answer can take several
// MiB: twice that, and what waits to be read, must fit into its memory. Calls that last, and are passed on as they come, count separately.
const maxCalls = 20

// streams is the priority of calls that last.
const streams = corev3.RoutingPriority_HIGH

// atOnce bounds what may be in progress at a priority.
func atOnce(priority corev3.RoutingPriority, calls uint32) *clusterv3.CircuitBreakers_Thresholds {
	return &clusterv3.CircuitBreakers_Thresholds{
		Priority: priority, MaxConnections: number(maxConnections), MaxPendingRequests: number(maxConnections), MaxRequests: number(calls), MaxRetries: number(10),
	}
}

// managers is the cluster for calls to the managers whose TLS ends here.
func (o Options) managers() *clusterv3.Cluster {
	return o.called(base(managersCluster, o.Managers, o.ManagersPort), managersSecret)
}

// gatherer is the cluster for calls to the gatherer whose TLS ends here.
func (o Options) gatherer() *clusterv3.Cluster {
	return o.called(base(gathererCluster, o.Gatherer, o.GathererPort), gathererSecret)
}

// called makes a cluster be called as by a gateway, over HTTP/2 and TLS, provided that its certificates are those of a secret.
func (o Options) called(c *clusterv3.Cluster, peers string) *clusterv3.Cluster {
	c.TransportSocket = &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(o.upstreamTLS(peers))},
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(&upstreamv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
						Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
							ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: seconds(20), Timeout: seconds(5)},
						},
					},
				},
			},
		}),
	}
	check := checked()
	check.HealthChecker = &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{}}
	c.HealthChecks = []*corev3.HealthCheck{check}
	return c
}

// managersTCP is the cluster for TLS that is passed through to the managers.
func (o Options) managersTCP() *clusterv3.Cluster {
	return reachable(base(tcpCluster, o.Managers, o.ManagersPort))
}

// gathererTCP is the cluster for TLS that is passed through to the gatherer.
func (o Options) gathererTCP() *clusterv3.Cluster {
	return reachable(base(gathererTCPCluster, o.Gatherer, o.GathererPort))
}

// reachable adds a check of whether connections are accepted: nothing more can be known of what TLS hides.
func reachable(c *clusterv3.Cluster) *clusterv3.Cluster {
	check := checked()
	check.HealthChecker = &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}
	c.HealthChecks = []*corev3.HealthCheck{check}
	return c
}

// checked returns how often health is checked: an endpoint that does not answer fails before the sessions over it expire.
func checked() *corev3.HealthCheck {
	return &corev3.HealthCheck{
		Timeout: seconds(2), Interval: seconds(2), UnhealthyThreshold: number(2), HealthyThreshold: number(1), NoTrafficInterval: seconds(2),
	}
}

func (o Options) adminCluster() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 adminCluster,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       seconds(1),
		LoadAssignment:       endpoints(adminCluster, address("127.0.0.1", o.Admin)),
	}
}

func endpoints(name string, at *corev3.Address) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: at}},
		}}}},
		Policy: &endpointv3.ClusterLoadAssignment_Policy{OverprovisioningFactor: number(140)},
	}
}

// all stands for all requests.
func all() *corev3.RuntimeFractionalPercent {
	return &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{Numerator: 100}}
}

func yes() *wrapperspb.BoolValue { return wrapperspb.Bool(true) }
