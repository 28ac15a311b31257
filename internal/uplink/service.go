package uplink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"

	"google.golang.org/grpc"

	"github.com/groupcast/groupcast/internal/identity"
)

// ServiceConfig is the part of a service's configuration that says who the managers are, and how
// the service proves its identity to them.
type ServiceConfig struct {
	Managers       []string `json:"managers" usage:"the managers' gRPC ports, as host:port"`
	TrustDomain    string   `json:"trustDomain" usage:"trust domain of all identities"`
	CredentialsDir string   `json:"credentialsDir" usage:"directory of this service's tls.crt, tls.key and ca.crt; the certificate names it"`
	JoinTokenFile  string   `json:"joinTokenFile" usage:"file with a join token, exchanged for credentials where credentialsDir has none, or those that lapsed, for no manager was reached in time; empty if others put them there"`
	// A pod needs no join token: the API server vouches for it.
	ServiceAccountTokenFile string `json:"serviceAccountTokenFile" usage:"file with a token of this pod's Kubernetes ServiceAccount for the managers' audience, exchanged for credentials at every start"`
	AuthorityFile           string `json:"authorityFile" usage:"certificate of the managers' CA, which a ServiceAccount's token is shown to"`
	RenewalByOther          bool   `json:"renewalByOther" usage:"somebody else, as cert-manager, renews the credentials; otherwise this service does"`
}

// ServiceDefaults returns the configuration of a service on a manager's machine.
func ServiceDefaults(credentialsDir string) ServiceConfig {
	return ServiceConfig{Managers: []string{"127.0.0.1:7400"}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: credentialsDir}
}

// Check reports everything that is wrong.
func (c ServiceConfig) Check() error {
	var problems []error
	note := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	note(len(c.Managers) > 0, "managers is empty: want their host:port, as in 127.0.0.1:7400")
	for _, address := range c.Managers {
		_, _, err := net.SplitHostPort(address)
		note(err == nil, "managers: %q is not host:port, as 127.0.0.1:7400", address)
	}
	err := identity.CheckTrustDomain(c.TrustDomain)
	note(err == nil, "trustDomain %v", err)
	note(c.CredentialsDir != "", "credentialsDir is empty: name a directory")
	note((c.ServiceAccountTokenFile == "") == (c.AuthorityFile == ""), "serviceAccountTokenFile and authorityFile go together: name both, or none")
	note(c.ServiceAccountTokenFile == "" || c.JoinTokenFile == "", "serviceAccountTokenFile and joinTokenFile: name one")
	return errors.Join(problems...)
}

// Uplink returns how to reach the managers.
func (c ServiceConfig) Uplink() Config {
	return Config{Endpoints: c.Managers, TrustDomain: c.TrustDomain, CredentialsDir: c.CredentialsDir, Renew: !c.RenewalByOther}
}

// Tickets returns the tickets of a service with a role.
func (c ServiceConfig) Tickets(role identity.Role) Tickets {
	return Tickets{Role: role, JoinToken: c.JoinTokenFile, ServiceAccountToken: c.ServiceAccountTokenFile, Authority: c.AuthorityFile}
}

// Connect gets the service its credentials, if it has none yet, and returns its connection to the
// managers and its name. The credentials must be for its role.
func (c ServiceConfig) Connect(ctx context.Context, role identity.Role, log *slog.Logger, opts ...grpc.DialOption) (*Uplink, string, error) {
	if err := c.Tickets(role).Enter(ctx, c.Uplink(), log, opts...); err != nil {
		if errors.Is(err, fs.ErrNotExist) && c.JoinTokenFile == "" {
			err = fmt.Errorf("%w: give --join-token-file a token of 'groupcast token create NAME --role %s'", err, role)
		}
		return nil, "", err
	}
	config := c.Uplink()
	config.tickets = c.Tickets(role)
	managers, err := Dial(config, log, opts...)
	if err != nil {
		return nil, "", err
	}
	id, err := managers.ID()
	if err == nil && id.Role != role {
		err = fmt.Errorf("credentials in %s are of %s: want those of a process with role %s: remove them, and give --join-token-file a token of 'groupcast token create NAME --role %[3]s'", c.CredentialsDir, id, role)
	}
	if err != nil {
		return nil, "", errors.Join(err, managers.Close())
	}
	return managers, id.Name, nil
}
