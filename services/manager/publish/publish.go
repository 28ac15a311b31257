// Package publish puts into Kubernetes objects what others need to reach the managers:
// the CA that the managers share, its certificate, and fresh credentials of the operator and
// of the proxy. The objects are made by others; this only fills them, and so needs no right to make any.
package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/internal/pause"
)

// Objects are the Secrets and ConfigMaps of this pod's namespace.
type Objects interface {
	Secret(ctx context.Context, name string) (map[string][]byte, kubernetes.Version, error)
	SetSecret(ctx context.Context, name string, data map[string][]byte, read kubernetes.Version) error
	SetConfigMap(ctx context.Context, name string, data map[string]string) error
}

// Keys of the objects; those of credentials are the file names that all of Groupcast and cert-manager use.
const (
	caCertificate  = "ca.crt"
	caKey          = "ca.key"
	caStore        = "store"
	certificateKey = "tls.crt"
	privateKey     = "tls.key"
	operatorConfig = "config.yaml"
)

// Sharing is how managers come to have the same CA, through a Secret.
type Sharing struct {
	Objects                  Objects
	Secret, Dir, TrustDomain string
	// Follow says that this manager waits for another one's CA, unless it has had one before.
	Follow bool
	// MayMake says why no new CA may be made although there is none, as where there is a store already; nil allows it.
	MayMake func(ctx context.Context) error
	// Founding is a file that is written before a new CA is offered: only the manager that made the CA may found what belongs to it. Empty
	// writes none.
	Founding string
	// Store is the kind of the store that belongs to the CA. Keep notes it beside the CA, so that no other store is taken for the CA's.
	Store string
	Log   *slog.Logger
}

// followPause is the pause before a manager looks again for the CA of another.
const followPause = time.Second

// Run makes the directory hold the CA that is in the Secret. If the Secret is empty, the directory's CA, or else a new one, goes into it:
// whichever manager is first decides. While the API server does not answer, a manager goes on with the CA that it has: managers outlive that.
func (s Sharing) Run(ctx context.Context) error {
	err := s.run(ctx)
	if !errors.Is(err, kubernetes.ErrNoAnswer) || !has(s.Dir) {
		return err
	}
	s.Log.Warn("the CA could not be compared with that of the other managers; going on with it", "secret", s.Secret, "dir", s.Dir, "error", err)
	return nil
}

func (s Sharing) run(ctx context.Context) error {
	for told := false; ; {
		shared, version, err := s.Objects.Secret(ctx, s.Secret)
		if err != nil {
			return fmt.Errorf("share the CA: %w", err)
		}
		if len(shared[caKey]) > 0 {
			return adopt(shared, s.Secret, s.Dir, s.TrustDomain)
		}
		ca, isNew, err := offered(s.Dir, s.TrustDomain)
		if err != nil {
			return err
		}
		if isNew && s.Follow {
			if !told {
				s.Log.Info("waiting for the first manager to share its CA", "secret", s.Secret)
				told = true
			}
			if !pause.For(ctx, followPause) {
				return ctx.Err()
			}
			continue
		}
		if isNew {
			if err := s.begin(ctx); err != nil {
				return fmt.Errorf("share the CA: %w", err)
			}
		}
		err = s.offer(ctx, ca, "", version)
		if errors.Is(err, kubernetes.ErrConflict) { // another manager was faster
			continue
		}
		if err != nil {
			return fmt.Errorf("share the CA: %w", err)
		}
		return ca.Save(s.Dir)
	}
}

// begin asks whether a new CA may be made, and leaves the mark of its maker (Founding), before the CA is offered.
func (s Sharing) begin(ctx context.Context) error {
	if s.MayMake != nil {
		if err := s.MayMake(ctx); err != nil {
			return fmt.Errorf("Secret %s is empty, and so is %s: %w", s.Secret, s.Dir, err)
		}
	}
	if s.Founding == "" {
		return nil
	}
	return founding(s.Founding)
}

// MayClaim says why a store that belongs to nobody is not the CA's: the CA has a store already, which knows the groups, and who is revoked. An
// etcd that has lost its data, or another one, does not know them. If the Secret cannot be read, that cannot be told either.
func (s Sharing) MayClaim(ctx context.Context) error {
	shared, _, err := s.Objects.Secret(ctx, s.Secret)
	if err != nil {
		return fmt.Errorf("look whether the CA has a store already: %w", err)
	}
	if kind := shared[caStore]; len(kind) > 0 {
		return fmt.Errorf("it is empty, and Secret %s says that the CA has a store already (%s): "+
			"is it another, or has it lost its data? Name the right one, or put back a copy", s.Secret, kind)
	}
	return nil
}

// Keep makes sure, until ctx is done, that the Secret holds the CA of the directory and says that the CA has a store: somebody may empty the
// Secret, and with it the only copy that other managers find. When the API server answers for the first time, what would have kept the manager
// from starting ends it.
func (s Sharing) Keep(ctx context.Context) error {
	next, answered := time.Duration(0), false
	for {
		if !pause.For(ctx, next) {
			return nil
		}
		err := s.putBack(ctx)
		next = max(next, look)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kubernetes.ErrNoAnswer), errors.Is(err, kubernetes.ErrConflict):
		case err != nil && !answered:
			return fmt.Errorf("share the CA: %w", err)
		case err != nil:
			s.Log.Error("the CA is not shared any more", "secret", s.Secret, "error", err)
		default:
			next, answered = again, true
		}
	}
}

// putBack fills a Secret that is empty, or has no note of the store. It fails if the Secret holds another CA.
func (s Sharing) putBack(ctx context.Context) error {
	shared, version, err := s.Objects.Secret(ctx, s.Secret)
	if err != nil {
		return err
	}
	emptied := len(shared[caKey]) == 0
	if !emptied {
		if err := isSame(shared, s.Secret, s.Dir); err != nil || string(shared[caStore]) == s.Store {
			return err
		}
	}
	ca, err := identity.OpenCA(s.Dir, s.TrustDomain)
	if err != nil {
		return err
	}
	if err := s.offer(ctx, ca, s.Store, version); err != nil || !emptied {
		return err
	}
	s.Log.Warn("the Secret of the CA was empty, and has it again", "secret", s.Secret)
	return nil
}

func (s Sharing) offer(ctx context.Context, ca *identity.CA, store string, read kubernetes.Version) error {
	certificate, key, err := ca.PEM()
	if err != nil {
		return err
	}
	data := map[string][]byte{caCertificate: certificate, caKey: key}
	if store != "" {
		data[caStore] = []byte(store)
	}
	return s.Objects.SetSecret(ctx, s.Secret, data, read)
}

// has reports whether a directory has a CA.
func has(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, caKey))
	return !errors.Is(err, fs.ErrNotExist)
}

// offered returns the CA of a directory, or a new one that is nowhere yet.
func offered(dir, trustDomain string) (ca *identity.CA, isNew bool, err error) {
	if !has(dir) {
		ca, err = identity.NewCA(trustDomain, time.Now)
		return ca, true, err
	}
	ca, err = identity.OpenCA(dir, trustDomain)
	return ca, false, err
}

// adopt writes the shared CA into the directory, unless another one is there.
func adopt(shared map[string][]byte, secret, dir, trustDomain string) error {
	ca, err := identity.ParseCA(shared[caCertificate], shared[caKey], trustDomain)
	if err != nil {
		return fmt.Errorf("Secret %s: %w", secret, err)
	}
	if err := isSame(shared, secret, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ca.Save(dir)
}

// isSame says that the CA of a directory is not the shared one, or why that is not known.
func isSame(shared map[string][]byte, secret, dir string) error {
	own, err := os.ReadFile(filepath.Join(dir, caCertificate))
	if err != nil {
		return fmt.Errorf("read CA: %w", err)
	}
	if !bytes.Equal(own, shared[caCertificate]) {
		return fmt.Errorf("the CA in %s is not the one in Secret %s: empty the Secret if the directory's is the right one", dir, secret)
	}
	return nil
}

func founding(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return identity.WriteFile(name, nil, 0o600)
}
