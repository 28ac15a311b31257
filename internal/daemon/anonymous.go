package daemon

import (
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// anonymousShare is the part of a source's connections that may be without a certificate: one in so many. Behind a proxy
	// that passes TLS through all have one address, and nobody's session is to wait for a caller that has shown nothing.
	anonymousShare = 4
	// anonymousTime is how long such a connection lives: a newcomer that enrolls makes one call or two.
	anonymousTime = maxUnaryTime + 10*time.Second
)

var errAnonymous = errors.New("too many connections without a certificate from one address")

// anonymous counts connections without a certificate apart from others, and ends them soon.
type anonymous struct {
	credentials.TransportCredentials
	sources *sources
}

func newAnonymous(trusted credentials.TransportCredentials, most int) *anonymous {
	return &anonymous{trusted, newSources(most)}
}

// ServerHandshake implements credentials.TransportCredentials.
func (a *anonymous) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := a.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if !isAnonymous(info) {
		return connection, info, nil
	}
	held := a.sources.hold(connection)
	if held == nil {
		return nil, nil, errors.Join(errAnonymous, connection.Close())
	}
	release := held.release
	end := time.AfterFunc(anonymousTime, func() {
		release()
		connection.Close()
	})
	held.release = func() {
		end.Stop()
		release()
	}
	return held, info, nil
}

// isAnonymous reports whether a peer has shown no certificate.
func isAnonymous(info credentials.AuthInfo) bool {
	shown, is := info.(credentials.TLSInfo)
	return is && len(shown.State.PeerCertificates) == 0
}
