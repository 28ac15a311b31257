package uplink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/internal/pause"
)

// Tickets are files with which a service can get its first credentials. Without any, somebody else provides them.
type Tickets struct {
	// Role is the service's role.
	Role identity.Role
	// JoinToken is exchanged only if there are no credentials yet, or they have expired.
	JoinToken string
	// ServiceAccountToken is exchanged at every start: the credentials of an earlier start may have
	// expired while the pod was not running. Authority is the managers' CA.
	ServiceAccountToken string
	Authority           string
}

// Enter exchanges a ticket for credentials, if there is a ticket and they are needed.
func (t Tickets) Enter(ctx context.Context, config Config, log *slog.Logger, opts ...grpc.DialOption) error {
	if t.ServiceAccountToken != "" {
		return t.enterPod(ctx, config, log, opts)
	}
	current, err := identity.FilesIn(config.CredentialsDir).Credentials()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: mend the credentials in %s, or remove them and be let in anew, by a new join token", err, config.CredentialsDir)
	}
	lapsed := err == nil && lapsed(current)
	if t.JoinToken == "" || err == nil && !lapsed {
		return err
	}
	token, err := os.ReadFile(t.JoinToken)
	if err != nil {
		return fmt.Errorf("read join token: %w", err)
	}
	token = bytes.TrimSpace(token)
	if len(token) == 0 {
		return fmt.Errorf("join token: %s is empty: want in it what 'groupcast token create' writes", filepath.Clean(t.JoinToken))
	}
	if identity.Exposed(t.JoinToken) {
		log.Warn("every user of this machine can read the join token, and be let in by it first: chmod 600 it", "file", t.JoinToken)
	}
	log.Info("asking to be let in by the join token", "managers", config.Endpoints)
	if _, err := Enroll(ctx, config, t.Role, string(token), opts...); err != nil {
		why := ""
		if lapsed {
			why = fmt.Sprintf("the credentials in %s have expired: ", config.CredentialsDir)
		}
		return fmt.Errorf("%senroll with the token in %s: %w%s", why, filepath.Clean(t.JoinToken), inWords{err}, askedWhere(err, config))
	}
	return nil
}

// askedWhere says where a manager was looked for, if what is there did not answer as one.
func askedWhere(err error, config Config) string {
	if status.Code(err) != codes.Unavailable || Reason(err) != "" {
		return ""
	}
	return ": is a manager at " + strings.Join(config.Endpoints, ", ") + "?"
}

// lapsed reports whether no manager accepts the credentials any more, not even to renew them.
func lapsed(c *identity.Credentials) bool {
	return time.Since(c.Expiry()) > identity.ClockTolerance
}

// Lapsed returns why no manager accepts a configuration's credentials any more, if its user is to keep them fresh: they
// expired too long ago even to be renewed. It is nil if they did not, cannot be read, or are renewed by somebody else.
func (c Config) Lapsed() error {
	if !c.Renew || c.ServiceAccountTokenFile != "" {
		return nil
	}
	current, err := identity.FilesIn(c.CredentialsDir).Credentials()
	if err != nil || !lapsed(current) {
		return nil
	}
	return fmt.Errorf("the certificate of %s in %s has expired at %s, too long ago to be renewed: enroll anew, with a new join token and --replace",
		current.ID, c.CredentialsDir, current.Expiry().Local().Format(time.DateTime))
}

// enterPause is the pause before managers that could not answer are asked again: when
// a cluster starts, they are often not there yet.
const enterPause = time.Second

// enterPod exchanges the token of this pod's ServiceAccount.
func (t Tickets) enterPod(ctx context.Context, config Config, log *slog.Logger, opts []grpc.DialOption) error {
	log.Info("asking to be let in by the ServiceAccount's token", "managers", config.Endpoints)
	for {
		err := t.showAccount(ctx, config, opts)
		code := status.Code(err)
		if err == nil || code != codes.Unavailable && code != codes.ResourceExhausted && code != codes.DeadlineExceeded {
			return err
		}
		log.Warn("not let in yet; trying again", "error", err)
		if !pause.For(ctx, enterPause) {
			return ctx.Err()
		}
	}
}

// showAccount exchanges that token once.
func (t Tickets) showAccount(ctx context.Context, config Config, opts []grpc.DialOption) error {
	config.ServiceAccountTokenFile, config.AuthorityFile = t.ServiceAccountToken, t.Authority
	_, err := EnrollPod(ctx, config, t.Role, opts...)
	return err
}

// EnterPod exchanges the token of this pod's ServiceAccount, if the configuration names one and the credentials are not
// there or have expired. It waits where many pods come at once. Credentials that are good are renewed by whoever dials.
func (c Config) EnterPod(ctx context.Context, opts ...grpc.DialOption) error {
	if c.ServiceAccountTokenFile == "" {
		return nil
	}
	if current, err := identity.FilesIn(c.CredentialsDir).Credentials(); err == nil && !lapsed(current) {
		return nil
	}
	for {
		_, err := EnrollPod(ctx, c, "", opts...)
		if status.Code(err) != codes.ResourceExhausted || !sleep(ctx, enterPause) {
			return err
		}
	}
}

// Discard removes credentials of this pod that were revoked, so that the next EnterPod shows the token again.
func (c Config) Discard() error {
	if c.ServiceAccountTokenFile == "" {
		return nil
	}
	return os.Remove(identity.FilesIn(c.CredentialsDir).Key) // without the key the other files are of no use
}

// PodSession returns the suffix that this pod's sessions add to the member's name, which all pods of a
// ServiceAccount share; empty if the configuration is not a pod's.
func (c Config) PodSession() string {
	token, err := os.ReadFile(c.ServiceAccountTokenFile)
	if err != nil {
		return ""
	}
	return kubernetes.Label(kubernetes.PodOf(string(token)))
}
