package daemon

import (
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// anonymousShare is the part of a source's connections that may be without a certificate: one in so many. Behind a proxy
	// that passes TLS through, all have the same address, and peers that have shown nothing must not make the sessions of
	// others wait.
	anonymousShare = 4
	// anonymousTime is how long such a connection may live: a peer that enrolls makes one call or two.
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
	if shown, is := info.(credentials.TLSInfo); !is || len(shown.State.PeerCertificates) > 0 {
		return connection, info, nil
	}
	held := a.sources.hold(connection)
	if held == nil {
		return nil, nil, errors.Join(errAnonymous, connection.Close())
	}
	end := time.AfterFunc(anonymousTime, func() { held.Close() })
	release := held.release
	held.release = func() {
		end.Stop()
		release()
	}
	return held, info, nil
}
