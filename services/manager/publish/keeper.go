package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Credential is what is kept fresh in a Secret.
type Credential struct {
	Secret string
	ID     identity.ID
	// Hosts are the DNS names of the credential's holder.
	Hosts []string
	// Endpoint is where its config.yaml says that the managers are; empty writes none.
	Endpoint string
}

// Keeper publishes the CA's certificate, and keeps credentials fresh in Secrets while this manager leads.
type Keeper struct {
	Objects Objects
	CA      *identity.CA
	// ConfigMap is where those that are to enroll find the certificates of the authorities: first the one by which the managers are known.
	// Empty publishes none.
	ConfigMap   string
	Credentials []Credential
	// Leading says whether this manager leads. Stamp returns the stamp for a certificate that is issued now.
	Leading func() bool
	Stamp   func() identity.Stamp
	Log     *slog.Logger
}

const (
	// look is how often the keeper looks whether something is due.
	look = 2 * time.Second
	// again is how often it checks that what was published is still there: others may empty an object, or write it anew.
	again = time.Minute
)

// Run publishes them until ctx is done. While the API server does not answer, it is asked again. Run ends if the API server refuses the
// certificates from the beginning: somebody has to see to that.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	known, turns := new(authority), make([]turn, len(k.Credentials))
	for {
		if err := k.publishAuthority(ctx, known); err != nil {
			return err
		}
		for i, credential := range k.Credentials {
			k.keep(ctx, credential, &turns[i])
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// authority is what was last published of the authorities.
type authority struct {
	published []byte
	due       time.Time
}

// publishAuthority publishes the certificates when they have changed, as those of another issuer may, and now and then anyway.
func (k *Keeper) publishAuthority(ctx context.Context, was *authority) error {
	is, now := k.CA.AuthoritiesPEM(), time.Now()
	if k.ConfigMap == "" || bytes.Equal(is, was.published) && now.Before(was.due) {
		return nil
	}
	err := k.Objects.SetConfigMap(ctx, k.ConfigMap, map[string]string{caCertificate: string(is)})
	switch {
	case err == nil:
		was.published, was.due = is, now.Add(again)
	case ctx.Err() != nil:
	case was.published == nil && !errors.Is(err, kubernetes.ErrNoAnswer):
		return fmt.Errorf("publish the CA's certificate in ConfigMap %s: %w", k.ConfigMap, err)
	default:
		k.Log.Warn("the CA's certificate could not be published; trying again", "config_map", k.ConfigMap, "error", err)
	}
	return nil
}

// turn is what a Secret has, nil before anything was published, and when it is to be looked at; and the authorities that it names.
type turn struct {
	held        *identity.Credentials
	check       time.Time
	authorities []byte
}

// keep renews a credential at half of its life by the date, since a machine that was suspended has no other clock that knows of it; when its
// Secret is found to be empty; and when the authorities have changed, as those of another issuer may: who has it would know no manager any
// more.
func (k *Keeper) keep(ctx context.Context, credential Credential, next *turn) {
	if !k.Leading() {
		*next = turn{}
		return
	}
	is, now := k.CA.AuthoritiesPEM(), time.Now()
	isDue := next.held == nil || next.held.RenewalDue(now) || !bytes.Equal(is, next.authorities)
	if !now.Before(next.check) {
		next.check = now.Add(again)
		isDue = isDue || k.isEmpty(ctx, credential.Secret)
	}
	if !isDue {
		return
	}
	held, err := k.publish(ctx, credential)
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("credentials could not be published; trying again", "secret", credential.Secret, "error", err)
	}
	next.held, next.authorities = held, is
}

func (k *Keeper) isEmpty(ctx context.Context, secret string) bool {
	data, _, err := k.Objects.Secret(ctx, secret)
	return err == nil && len(data[privateKey]) == 0
}

// publish returns what it has published; nil if it has not.
func (k *Keeper) publish(ctx context.Context, credential Credential) (*identity.Credentials, error) {
	bundle, err := k.CA.IssueBundle(credential.ID, k.Stamp(), credential.Hosts...)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{certificateKey: bundle.Certificate, privateKey: bundle.Key, caCertificate: bundle.Authorities}
	if credential.Endpoint != "" {
		access := uplink.Config{Endpoints: []string{credential.Endpoint}, TrustDomain: k.CA.TrustDomain, CredentialsDir: "."}
		if data[operatorConfig], err = yaml.Marshal(access); err != nil {
			return nil, fmt.Errorf("encode %s: %w", operatorConfig, err)
		}
	}
	if err := k.Objects.SetSecret(ctx, credential.Secret, data, ""); err != nil {
		return nil, err
	}
	return bundle.Credentials()
}
