package api

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
	"github.com/groupcast/groupcast/services/manager/store"
)

type identityService struct {
	groupv1.UnimplementedIdentityServiceServer
	server *Server
}

func (i *identityService) CreateToken(ctx context.Context, req *groupv1.CreateTokenRequest) (*groupv1.CreateTokenResponse, error) {
	registry, err := i.server.registry()
	if err != nil {
		return nil, err
	}
	return registry.CreateToken(ctx, callerOf(ctx), req, i.server.CA.Front(), i.server.CA.Now())
}

func (i *identityService) Enroll(ctx context.Context, req *groupv1.EnrollRequest) (*groupv1.EnrollResponse, error) {
	registry, err := i.server.registry()
	if err != nil {
		return nil, err
	}
	// A request that could not be certified must not use up the token.
	if _, err := publicKey(req.GetCertificateRequest()); err != nil {
		return nil, err
	}
	stamp := registry.Stamp()
	id, err := i.admit(ctx, registry, req)
	if err != nil {
		return nil, err
	}
	certificate, err := i.issue(id, stamp, req.GetCertificateRequest())
	return &groupv1.EnrollResponse{Certificate: certificate}, err
}

// admit returns the identity that a token is for. A join token is used up; a pod's token is not.
func (i *identityService) admit(ctx context.Context, registry *group.Registry, req *groupv1.EnrollRequest) (identity.ID, error) {
	if i.server.ServiceAccounts == nil || !serviceaccount.IsToken(req.GetToken()) {
		return registry.Redeem(ctx, req, i.server.CA.Now())
	}
	id, err := i.server.ServiceAccounts.Review(ctx, req.GetToken())
	if err == nil {
		err = registry.Admit(ctx, id, identity.Role(req.GetRole()))
	}
	if status.Code(toStatus(err)) == codes.Unauthenticated {
		registry.LogPodRefused(kubernetes.ClaimsOf(req.GetToken()), err)
	}
	return id, err
}

func (i *identityService) Renew(ctx context.Context, req *groupv1.RenewRequest) (*groupv1.RenewResponse, error) {
	registry, err := i.server.registry()
	if err != nil {
		return nil, err
	}
	stamp := registry.Stamp()
	caller, err := i.server.identify(ctx)
	if err != nil {
		return nil, err
	}
	certificate, err := i.issue(caller.ID, stamp, req.GetCertificateRequest())
	return &groupv1.RenewResponse{Certificate: certificate}, err
}

// IssueRelay certifies a member as an agent of its group.
func (i *identityService) IssueRelay(ctx context.Context, req *groupv1.IssueRelayRequest) (*groupv1.IssueRelayResponse, error) {
	registry, err := i.server.registry()
	if err != nil {
		return nil, err
	}
	stamp := registry.Stamp()
	if err := i.server.mayBe(ctx, req.GetGroup(), req.GetMember()); err != nil {
		return nil, err
	}
	if err := identity.CheckName(req.GetMember()); err != nil { // a name of one of several sessions does not pass
		return nil, &ledger.Invalid{Violations: []ledger.Violation{{Field: "member", Problem: err.Error()}}}
	}
	if err := i.server.mayRelay(req.GetGroup(), req.GetMember()); err != nil {
		return nil, err
	}
	certificate, err := i.issue(identity.RelayOf(req.GetGroup(), req.GetMember()), stamp, req.GetCertificateRequest())
	return &groupv1.IssueRelayResponse{Certificate: certificate}, err
}

func (i *identityService) issue(id identity.ID, stamp identity.Stamp, request []byte) (*groupv1.Certificate, error) {
	public, err := publicKey(request)
	if err != nil {
		return nil, err
	}
	der, err := i.server.CA.Issue(id, public, stamp)
	if err != nil {
		return nil, err
	}
	now := i.server.CA.Now()
	return &groupv1.Certificate{
		Certificate: der, Authorities: i.server.CA.Authorities(),
		Identity:   id.URI(i.server.TrustDomain).String(),
		ExpireTime: timestamppb.New(now.Add(identity.CertificateLifetime)), ManagerTime: timestamppb.New(now),
	}, nil
}

func publicKey(request []byte) (any, error) {
	public, err := identity.PublicKey(request)
	if err != nil {
		return nil, &ledger.Invalid{Violations: []ledger.Violation{{Field: "certificate_request", Problem: err.Error()}}}
	}
	return public, nil
}

func (i *identityService) RevokeIdentity(ctx context.Context, req *groupv1.RevokeIdentityRequest) (*groupv1.RevokeIdentityResponse, error) {
	registry, err := i.server.registry()
	if err != nil {
		return nil, err
	}
	return &groupv1.RevokeIdentityResponse{}, registry.Revoke(ctx, identity.Named(req))
}

func (i *identityService) WatchRevocations(req *groupv1.WatchRevocationsRequest, stream groupv1.IdentityService_WatchRevocationsServer) error {
	if err := i.server.View.SyncSoon(stream.Context()); err != nil {
		return err
	}
	return i.server.View.WatchRevocations(stream.Context(), store.Revision(req.GetResumeRevision()), stream.Send)
}

func (i *identityService) WatchGrants(req *groupv1.WatchGrantsRequest, stream groupv1.IdentityService_WatchGrantsServer) error {
	if err := i.server.View.SyncSoon(stream.Context()); err != nil {
		return err
	}
	return i.server.View.WatchGrants(stream.Context(), store.Revision(req.GetResumeRevision()), stream.Send)
}
