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

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/internal/uplink"
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
	certificateKey = "tls.crt"
	privateKey     = "tls.key"
	operatorConfig = "config.yaml"
)

// Sharing is how managers come to the same CA, through a Secret.
type Sharing struct {
	Objects                  Objects
	Secret, Dir, TrustDomain string
	// Follow says that this manager waits for another one's CA, unless it has had one before.
	Follow bool
	// Founding is a file that is there from before a new CA is offered: who has made the CA, and nobody else, may
	// found what belongs to it. Empty writes none.
	Founding string
	Log      *slog.Logger
}

// followPause is the pause before a manager looks again for the CA of another.
const followPause = time.Second

// Run has the directory hold the CA that is in the Secret. Where the Secret is empty, the
// directory's CA, or else a new one, goes into it: whichever manager is first. While the API server does
// not answer, a manager goes on with the CA that it has: the managers outlive that.
func (s Sharing) Run(ctx context.Context) error {
	err := s.run(ctx)
	if !errors.Is(err, kubernetes.ErrNoAnswer) || !has(s.Dir) {
		return err
	}
	s.Log.Warn("the CA could not be compared with that of the other managers; going on with it", "secret", s.Secret, "dir", s.Dir, "error", err)
	return nil
}

func (s Sharing) run(ctx context.Context) error {
	for {
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
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(followPause):
				continue
			}
		}
		if isNew && s.Founding != "" {
			if err := founding(s.Founding); err != nil {
				return fmt.Errorf("share the CA: %w", err)
			}
		}
		err = s.offer(ctx, ca, version)
		if errors.Is(err, kubernetes.ErrConflict) { // another manager was faster
			continue
		}
		if err != nil {
			return fmt.Errorf("share the CA: %w", err)
		}
		return ca.Save(s.Dir)
	}
}

func (s Sharing) offer(ctx context.Context, ca *identity.CA, read kubernetes.Version) error {
	certificate, key, err := ca.PEM()
	if err != nil {
		return err
	}
	return s.Objects.SetSecret(ctx, s.Secret, map[string][]byte{caCertificate: certificate, caKey: key}, read)
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
	own, err := os.ReadFile(filepath.Join(dir, caCertificate))
	if err == nil && !bytes.Equal(own, shared[caCertificate]) {
		return fmt.Errorf("the CA in %s is not the one in Secret %s: empty the Secret if the directory's is the right one", dir, secret)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read CA: %w", err)
	}
	return ca.Save(dir)
}

// Credential is what is kept fresh in a Secret.
type Credential struct {
	Secret string
	ID     identity.ID
	// Hosts are DNS names of who has it.
	Hosts []string
	// Endpoint is where its config.yaml says that the managers are; empty writes none.
	Endpoint string
}

// Keeper publishes the CA's certificate, and keeps credentials fresh in Secrets while this manager leads.
type Keeper struct {
	Objects Objects
	CA      *identity.CA
	// ConfigMap is where those find the certificates of the authorities who are to enroll: first that by which the managers are
	// known. Empty publishes none.
	ConfigMap   string
	Credentials []Credential
	// Leading says whether this manager leads; Stamp is the stamp of a certificate of now.
	Leading func() bool
	Stamp   func() identity.Stamp
	Log     *slog.Logger
}

// look is how often it is looked whether something is due.
const look = 2 * time.Second

// Run publishes them until ctx is done. What the API server does not take, it is asked for again.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	isKnown := k.ConfigMap == ""
	due := make([]time.Time, len(k.Credentials))
	for {
		isKnown = isKnown || k.publishAuthority(ctx)
		for i, credential := range k.Credentials {
			if !k.Leading() {
				due[i] = time.Time{}
				continue
			}
			if now := time.Now(); !now.Before(due[i]) {
				due[i] = now.Add(identity.CertificateLifetime / 2)
				if err := k.publish(ctx, credential); err != nil && ctx.Err() == nil {
					due[i] = now.Add(look)
					k.Log.Warn("credentials could not be published; trying again", "secret", credential.Secret, "error", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// publishAuthority reports whether it did.
func (k *Keeper) publishAuthority(ctx context.Context) bool {
	err := k.Objects.SetConfigMap(ctx, k.ConfigMap, map[string]string{caCertificate: string(k.CA.AuthoritiesPEM())})
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("the CA's certificate could not be published; trying again", "config_map", k.ConfigMap, "error", err)
	}
	return err == nil
}

func (k *Keeper) publish(ctx context.Context, credential Credential) error {
	bundle, err := k.CA.IssueBundle(credential.ID, k.Stamp(), credential.Hosts...)
	if err != nil {
		return err
	}
	data := map[string][]byte{certificateKey: bundle.Certificate, privateKey: bundle.Key, caCertificate: bundle.Authorities}
	if credential.Endpoint != "" {
		access := uplink.Config{Endpoints: []string{credential.Endpoint}, TrustDomain: k.CA.TrustDomain, CredentialsDir: "."}
		if data[operatorConfig], err = yaml.Marshal(access); err != nil {
			return fmt.Errorf("encode %s: %w", operatorConfig, err)
		}
	}
	return k.Objects.SetSecret(ctx, credential.Secret, data, "")
}

func founding(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return identity.WriteFile(name, nil, 0o600)
}
