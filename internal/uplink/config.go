// Package uplink is the one client of the manager that every other part uses:
// enrolment and renewal of certificates, the connection, and the loops that keep
// sessions, registrations and watches alive over broken connections and changing
// leaders.
package uplink

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/spell"
)

// Config says how to reach the managers, and as whom.
type Config struct {
	// Endpoints are the managers' gRPC ports, as host:port.
	Endpoints []string `json:"endpoints"`
	// TrustDomain is the managers' trust domain.
	TrustDomain string `json:"trustDomain"`
	// CredentialsDir holds tls.crt, tls.key and ca.crt. Relative names, here and below, start from this file's directory.
	CredentialsDir string `json:"credentialsDir"`
	// Renew says that this client renews the certificate; otherwise somebody else does.
	Renew bool `json:"renew,omitempty"`
	// ServiceAccountTokenFile holds a token of this pod's Kubernetes ServiceAccount for the managers' audience. It is exchanged for
	// credentials if there are no valid ones, and to renew them. AuthorityFile is the certificate of the managers' CA.
	ServiceAccountTokenFile string `json:"serviceAccountTokenFile,omitempty"`
	AuthorityFile           string `json:"authorityFile,omitempty"`

	// tickets are those of a service. In a pod it is let in by them again when no manager takes its certificate any more.
	tickets Tickets
}

// ReadConfig reads a YAML file.
func ReadConfig(name string) (Config, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Config{}, err
	}
	var config Config
	if err := cmp.Or(unknownKeys(text), spell.UnmarshalYAML(text, &config)); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", name, err)
	}
	for _, file := range []*string{&config.CredentialsDir, &config.ServiceAccountTokenFile, &config.AuthorityFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(name), *file)
		}
	}
	if err := config.Validate(); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", name, err)
	}
	return config, nil
}

// keys are what a configuration file can hold.
var keys = []string{"endpoints", "trustDomain", "credentialsDir", "renew", "serviceAccountTokenFile", "authorityFile"}

func unknownKeys(text []byte) error {
	var tree map[string]any
	if yaml.Unmarshal(text, &tree) != nil {
		return nil // whoever reads it complains if it is no YAML
	}
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		if !slices.Contains(keys, key) {
			problems = append(problems, fmt.Errorf("unknown key %s%s", key, spell.DidYouMean(spell.Alike(key, keys))))
		}
	}
	return errors.Join(problems...)
}

// Write writes the configuration as a YAML file that only its owner can read.
func (c Config) Write(name string) error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return identity.WriteFile(name, text, 0o600)
}

// ExposedKey returns the file of the private key if every user of this machine may read it, else nothing.
func (c Config) ExposedKey() string {
	if key := identity.FilesIn(c.CredentialsDir).Key; identity.Exposed(key) {
		return key
	}
	return ""
}

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var problems []error
	if len(c.Endpoints) == 0 {
		problems = append(problems, errors.New("endpoints is empty: want the managers' host:port"))
	}
	for _, endpoint := range c.Endpoints {
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			problems = append(problems, fmt.Errorf("endpoints: %q is not host:port", endpoint))
		}
	}
	if err := identity.CheckTrustDomain(c.TrustDomain); err != nil {
		problems = append(problems, fmt.Errorf("trustDomain %w", err))
	}
	if c.CredentialsDir == "" {
		problems = append(problems, errors.New("credentialsDir is empty"))
	}
	if (c.ServiceAccountTokenFile == "") != (c.AuthorityFile == "") {
		problems = append(problems, errors.New("serviceAccountTokenFile and authorityFile go together"))
	}
	return errors.Join(problems...)
}
