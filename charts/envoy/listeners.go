package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	transcoderv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_json_transcoder/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	webv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// idle is after how many seconds a silent stream is ended: watches have a heartbeat every 10 s.
const idle = 60

func (o Options) listener(name string, port uint32, filter string, config proto.Message) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: name, Address: address(o.Listen, port), PerConnectionBufferLimitBytes: number(1 << 20),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: filter, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(config)},
		}}}},
	}
}

// passthrough passes TLS through to the managers.
func (o Options) passthrough() *listenerv3.Listener { return o.through("grpc", o.GRPC, tcpCluster) }

// gathering passes TLS through to the gatherer.
func (o Options) gathering() *listenerv3.Listener {
	return o.through("gathering", o.Gathering, gathererTCPCluster)
}

// through passes TLS through. There is no time limit, as sessions last.
func (o Options) through(name string, port uint32, cluster string) *listenerv3.Listener {
	return o.listener(name, port, "envoy.filters.network.tcp_proxy", &tcpv3.TcpProxy{
		StatPrefix:       name,
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: cluster},
		IdleTimeout:      seconds(3600),
		// An address may have been unreachable for some time before that is noticed: then the next one is tried.
		MaxConnectAttempts: number(3),
		AccessLog: jsonLog(map[string]string{
			"listener": name, "start": "%START_TIME%", "duration_ms": "%DURATION%", "peer": "%DOWNSTREAM_REMOTE_ADDRESS%",
			"upstream": "%UPSTREAM_HOST%", "received": "%BYTES_RECEIVED%", "sent": "%BYTES_SENT%", "flags": "%RESPONSE_FLAGS%",
		}),
	})
}

// http takes HTTP with JSON, gRPC-Web and gRPC from callers that show a member's or an operator's certificate.
func (o Options) http() *listenerv3.Listener {
	l := o.listener("http", o.HTTP, "envoy.filters.network.http_connection_manager", o.connections())
	l.FilterChains[0].TransportSocket = &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(o.downstreamTLS())},
	}
	l.FilterChains[0].TransportSocketConnectTimeout = seconds(5)
	return l
}

// grpcStatus is the number with which an answer in gRPC ends. Answers in JSON have none, and Envoy would guess one from
// their HTTP status: UNIMPLEMENTED for each 404.
const grpcStatus = `%COALESCE({"operators": [{"command": "TRAILER", "param": "grpc-status"}, {"command": "RESP", "param": "grpc-status"}]})%`

func (o Options) connections() *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: "http",
		CodecType:  hcmv3.HttpConnectionManager_AUTO,
		// What callers write into x-forwarded-client-cert is discarded: it contains what Envoy itself has seen, or nothing.
		ForwardClientCertDetails:    hcmv3.HttpConnectionManager_SANITIZE_SET,
		SetCurrentClientCertDetails: &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Cert: true, Uri: true},
		UseRemoteAddress:            yes(),
		NormalizePath:               yes(),
		MergeSlashes:                true,
		StreamIdleTimeout:           seconds(idle),
		RequestHeadersTimeout:       seconds(10),
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout: seconds(300), HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_REJECT_REQUEST,
		},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams: number(100), InitialStreamWindowSize: number(64 << 10), InitialConnectionWindowSize: number(1 << 20),
			ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: seconds(20), Timeout: seconds(5)},
		},
		AccessLog: jsonLog(map[string]string{
			"listener": "http", "start": "%START_TIME%", "duration_ms": "%DURATION%", "peer": "%DOWNSTREAM_REMOTE_ADDRESS%",
			"caller": "%DOWNSTREAM_PEER_URI_SAN%", "method": "%REQ(X-ENVOY-ORIGINAL-METHOD?:METHOD)%", "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
			"status": "%RESPONSE_CODE%", "grpc_status": grpcStatus, "details": "%RESPONSE_CODE_DETAILS%",
			"manager": "%UPSTREAM_HOST%", "received": "%BYTES_RECEIVED%", "sent": "%BYTES_SENT%", "flags": "%RESPONSE_FLAGS%",
		}),
		HttpFilters:    o.filters(),
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: o.routes()},
	}
}

// Filters that some routes treat in a way of their own: transcoder converts between JSON and gRPC, and buffer holds a request until it is whole.
const (
	transcoder = "envoy.filters.http.grpc_json_transcoder"
	buffer     = "envoy.filters.http.buffer"
)

// longestRequest is the greatest length of a request in JSON, in bytes, which is many times what any has that people write. The transcoder collects
// each message outside of what Envoy counts as a stream's memory, and has no bound for it.
const longestRequest = 4 << 20

// longestJSON is the greatest length of an answer in JSON, in bytes: the managers' longest answer in gRPC has 4 MiB, and is
// several times as long with the names of its fields. Without this limit it would be what one connection buffers.
const longestJSON = 16 << 20

func filter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(config)}}
}

func (o Options) filters() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		filter("envoy.filters.http.local_ratelimit", &ratelimitv3.LocalRateLimit{
			StatPrefix:                     "http",
			TokenBucket:                    &typev3.TokenBucket{MaxTokens: o.Burst, TokensPerFill: number(o.PerSecond), FillInterval: seconds(1)},
			FilterEnabled:                  all(),
			FilterEnforced:                 all(),
			RateLimitedAsResourceExhausted: true,
		}),
		{
			Name: buffer, Disabled: true, // but for JSON
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&bufferv3.Buffer{MaxRequestBytes: number(longestRequest)})},
		},
		filter("envoy.filters.http.grpc_web", &webv3.GrpcWeb{}),
		filter(transcoder, &transcoderv3.GrpcJsonTranscoder{
			DescriptorSet:             &transcoderv3.GrpcJsonTranscoder_ProtoDescriptor{ProtoDescriptor: o.Dir + "/groupcast.binpb"},
			Services:                  Services,
			AutoMapping:               true,
			ConvertGrpcStatus:         true,
			MatchIncomingRequestRoute: false,
			PrintOptions:              &transcoderv3.GrpcJsonTranscoder_PrintOptions{StreamNewlineDelimited: true},
			MaxResponseBodySize:       number(longestJSON),
			RequestValidationOptions: &transcoderv3.GrpcJsonTranscoder_RequestValidationOptions{
				RejectUnknownMethod: true, RejectUnknownQueryParameters: true,
			},
		}),
		filter("envoy.filters.http.grpc_stats", &statsv3.FilterConfig{
			PerMethodStatSpecifier: &statsv3.FilterConfig_StatsForAllMethods{StatsForAllMethods: yes()},
			EnableUpstreamStats:    true,
		}),
		filter("envoy.filters.http.router", &routerv3.Router{}),
	}
}

// routes sends calls of the API to whom they are for, and answers all else itself: each name that a route takes costs Envoy metrics which it
// keeps for good, so that a caller who invents names must not reach any.
func (o Options) routes() *routev3.RouteConfiguration {
	routes := []*routev3.Route{o.document(), transcoded()}
	for _, of := range o.services {
		cluster := managersCluster
		if of.name == gatherService {
			cluster = gathererCluster
		}
		for _, method := range of.methods {
			routes = append(routes, calls(of.name, method, over(cluster, corev3.RoutingPriority_DEFAULT)))
		}
		for _, method := range of.streams {
			routes = append(routes, calls(of.name, method, over(cluster, streams)))
		}
	}
	return &routev3.RouteConfiguration{
		Name:                           "managers",
		MaxDirectResponseBodySizeBytes: number(1 << 20),
		VirtualHosts:                   []*routev3.VirtualHost{{Name: "managers", Domains: []string{"*"}, Routes: routes}},
	}
}

// inGRPC matches the types of content that Envoy takes for gRPC or gRPC-Web, and no other.
const inGRPC = `application/grpc(\+.*)?|application/grpc-web(-text)?(\+proto)?`

// transcoded is the route of what is not in gRPC until it is transcoded: then it is, and has that method's. What remains is nothing of the API.
func transcoded() *routev3.Route {
	whole := &bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Buffer{Buffer: &bufferv3.Buffer{MaxRequestBytes: number(longestRequest)}}}
	return &routev3.Route{
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"},
			Headers: []*routev3.HeaderMatcher{{
				Name: "content-type", InvertMatch: true, TreatMissingHeaderAsEmpty: true,
				HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
					MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: inGRPC}},
				}},
			}},
		},
		Action:               &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}},
		TypedPerFilterConfig: map[string]*anypb.Any{buffer: packed(&routev3.FilterConfig{Config: packed(whole)})},
	}
}

// calls sends calls of a method.
func calls(service, method string, to *routev3.Route_Route) *routev3.Route {
	return &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/" + service + "/" + method}}, Action: to}
}

// over makes calls go over a cluster. No stream is cut because of its duration: the caller's
// grpc-timeout applies, and silence ends it. A call is only tried again elsewhere if no server has
// received it.
func over(cluster string, priority corev3.RoutingPriority) *routev3.Route_Route {
	return &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		Priority:         priority,
		Timeout:          seconds(0),
		MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: seconds(0), GrpcTimeoutHeaderMax: seconds(0),
		},
		RetryPolicy: &routev3.RetryPolicy{
			RetryOn: "connect-failure,refused-stream,reset-before-request", NumRetries: number(3),
			RetryHostPredicate:            []*routev3.RetryPolicy_RetryHostPredicate{previousHosts()},
			HostSelectionRetryMaxAttempts: 3,
		},
	}}
}

// document serves the description of the API as HTTP, for authors of clients.
func (o Options) document() *routev3.Route {
	const name = "openapi.yaml"
	return &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/" + name}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: o.Dir + "/" + name}},
		}},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{{
			Header: &corev3.HeaderValue{Key: "content-type", Value: "application/yaml"}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
		TypedPerFilterConfig: map[string]*anypb.Any{transcoder: packed(&routev3.FilterConfig{Disabled: true})},
	}
}

// status shows the two pages of the admin interface that others may see.
func (o Options) status() *listenerv3.Listener {
	page := func(path string) *routev3.Route {
		return &routev3.Route{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: path}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: adminCluster}}},
		}
	}
	l := o.listener("status", o.Status, "envoy.filters.network.http_connection_manager", &hcmv3.HttpConnectionManager{
		StatPrefix:  "status",
		HttpFilters: []*hcmv3.HttpFilter{filter("envoy.filters.http.router", &routerv3.Router{})},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "status",
			VirtualHosts: []*routev3.VirtualHost{{
				Name: "status", Domains: []string{"*"}, Routes: []*routev3.Route{page("/ready"), page("/stats/prometheus")},
			}},
		}},
	})
	l.IgnoreGlobalConnLimit, l.BypassOverloadManager = true, true // a probe that fails would end everything in progress
	return l
}

func jsonLog(fields map[string]string) []*accesslogv3.AccessLog {
	format := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for name, value := range fields {
		format.Fields[name] = structpb.NewStringValue(value)
	}
	return []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.stdout",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(&streamv3.StdoutAccessLog{
			AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: format},
			}},
		})},
	}}
}
