package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// Secrets are the names of the files that Secrets returns. Envoy reads them again when they are
// moved into place, which is what the kubelet does.
const (
	ownSecret      = "own"
	callersSecret  = "callers"
	managersSecret = "managers"
	gathererSecret = "gatherer"
)

func (o Options) sds(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{
		Name: name,
		SdsConfig: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{
				Path: o.Dir + "/" + name + ".json", WatchedDirectory: &corev3.WatchedDirectory{Path: o.Dir},
			}},
		},
	}
}

// common is what both sides share: TLS 1.3, our certificate, and whose certificates are accepted.
func (o Options) common(peers string, protocols ...string) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsParams:                      &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3},
		AlpnProtocols:                  protocols,
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{o.sds(ownSecret)},
		ValidationContextType:          &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: o.sds(peers)},
	}
}

func (o Options) upstreamTLS(peers string) *tlsv3.UpstreamTlsContext {
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: o.common(peers, "h2")}
}

func (o Options) downstreamTLS() *tlsv3.DownstreamTlsContext {
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: o.common(callersSecret, "h2", "http/1.1"), RequireClientCertificate: yes()}
}

// Secrets returns the files by name.
func Secrets(o Options) map[string]*discoveryv3.DiscoveryResponse {
	file := func(name string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: o.TLSDir + "/" + name}}
	}
	watched := &corev3.WatchedDirectory{Path: o.TLSDir}
	// peers accepts certificates of one CA whose only URI begins with one of the roles; a name without a role is nobody's.
	peers := func(roles ...string) *tlsv3.Secret_ValidationContext {
		context := &tlsv3.CertificateValidationContext{TrustedCa: file("ca.crt"), WatchedDirectory: watched}
		for _, role := range roles {
			context.MatchTypedSubjectAltNames = append(context.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
				SanType: tlsv3.SubjectAltNameMatcher_URI, Matcher: prefix("spiffe://" + o.TrustDomain + "/groupcast/" + role + "/"),
			})
		}
		return &tlsv3.Secret_ValidationContext{ValidationContext: context}
	}
	own := &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: file("tls.crt"), PrivateKey: file("tls.key"), WatchedDirectory: watched,
	}}
	response := func(name string, secret *tlsv3.Secret) *discoveryv3.DiscoveryResponse {
		secret.Name = name
		return &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{packed(secret)}}
	}
	return map[string]*discoveryv3.DiscoveryResponse{
		ownSecret:      response(ownSecret, &tlsv3.Secret{Type: own}),
		callersSecret:  response(callersSecret, &tlsv3.Secret{Type: peers("operator", "member")}),
		managersSecret: response(managersSecret, &tlsv3.Secret{Type: peers("manager")}),
		gathererSecret: response(gathererSecret, &tlsv3.Secret{Type: peers("gatherer")}),
	}
}
