package uplink

import (
	"context"
	"fmt"
	"path/filepath"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// certify makes a key, and has it certified.
func certify(ask func(request []byte) (*groupv1.Certificate, error)) (*identity.Bundle, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	answer, err := ask(key.Request())
	if err != nil {
		return nil, err
	}
	return key.Certified(answer.GetCertificate(), answer.GetAuthorities())
}

// certifyFirst gets the first credentials of files. It checks before that they can be written, because asking uses up a join token.
func certifyFirst(files *identity.Files, ask func(request []byte) (*groupv1.Certificate, error)) (*identity.Bundle, error) {
	if err := identity.CheckWritable(filepath.Dir(files.Key)); err != nil {
		return nil, fmt.Errorf("write credentials: %w", err)
	}
	bundle, err := certify(ask)
	if err != nil {
		return nil, err
	}
	return bundle, files.Write(bundle)
}

// IssueRelay makes a member a session agent of its group. It writes the agent's credentials to a directory,
// and returns how the agent reaches the managers.
func (u *Uplink) IssueRelay(ctx context.Context, group, member, dir string) (Config, error) {
	_, err := certifyFirst(identity.FilesIn(dir), func(request []byte) (*groupv1.Certificate, error) {
		answer, err := groupv1.NewIdentityServiceClient(u).IssueRelay(ctx,
			&groupv1.IssueRelayRequest{Group: group, Member: member, CertificateRequest: request})
		return answer.GetCertificate(), err
	})
	return Config{Endpoints: u.transports.endpoints, TrustDomain: u.security.TrustDomain, CredentialsDir: dir, Renew: true}, err
}
