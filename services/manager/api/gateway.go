package api

import (
	"context"
	"fmt"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
)

// behindGateway reports whether the peer is a gateway.
func (s *Server) behindGateway(ctx context.Context) bool { return s.isPeer(ctx, identity.Gateway) }

// isPeer reports whether the peer, which need not be the caller, has a role.
func (s *Server) isPeer(ctx context.Context, role identity.Role) bool {
	connection, _ := peer.FromContext(ctx)
	security, _ := connection.AuthInfo.(credentials.TLSInfo)
	at, known := identity.PeerOf(security.State, s.TrustDomain)
	return known && at.ID.Role == role
}

// identifyBehind returns the caller behind a gateway: a member or an operator, or the gateway itself.
func (s *Server) identifyBehind(ctx context.Context, gateway identity.Peer) (identity.Peer, error) {
	caller, err := daemon.BehindGateway(ctx, gateway, s.Security)
	switch {
	case err != nil:
		return identity.Peer{}, err
	case caller != gateway && caller.ID.Role != identity.Operator && caller.ID.Role != identity.Member:
		return identity.Peer{}, fmt.Errorf("calls of %s through a gateway: %w", caller.ID.InWords(), errDenied)
	}
	return caller, s.checkRevoked(ctx, caller)
}
