package gatherer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Config is a gatherer's configuration.
type Config struct {
	daemon.CommonConfig

	Managers       []string          `json:"managers" usage:"the managers' gRPC ports, as host:port"`
	TrustDomain    string            `json:"trustDomain" usage:"trust domain of all identities"`
	CredentialsDir string            `json:"credentialsDir" usage:"directory of this gatherer's tls.crt, tls.key and ca.crt; the certificate names the gatherer"`
	JoinTokenFile  string            `json:"joinTokenFile" usage:"file with a join token, exchanged for credentials where credentialsDir has none; empty if others put them there"`
	RenewalByOther bool              `json:"renewalByOther" usage:"somebody else, as cert-manager, renews the credentials; otherwise this gatherer does"`
	GRPC           daemon.GRPCConfig `json:"grpc"`
	Data           DataConfig        `json:"data"`
	Store          StoreConfig       `json:"store"`
	Policy         PolicyConfig      `json:"policy"`
	Controller     string            `json:"controller" usage:"who decides about windows and connections: groupcast, or one of the papers' methods to compare with: gathering, buffers, proposed, spring, mehra, matsuo; traditional leaves all to the kernel"`
	Exec           []string          `json:"exec" usage:"command that is run for each file that is finished, with the file as its last argument; empty runs none"`
}

// DataConfig says where clients send their bytes.
type DataConfig struct {
	Listen    string   `json:"listen" usage:"address of the data port"`
	Addresses []string `json:"addresses" usage:"where clients reach the data port, as host:port; empty is where it listens, or this machine's addresses if that is everywhere"`
	Plaintext bool     `json:"plaintext" usage:"bytes come unencrypted over data connections, each of which still proves whose it is; for networks that are trusted"`
	Interface string   `json:"interface" usage:"network interface of the link that clients share, as eth0: what else comes over it is taken into account; empty counts uploads alone"`
}

// StoreConfig says where the bytes go.
type StoreConfig struct {
	Dir     string          `json:"dir" usage:"directory that every client has a directory in"`
	Reserve bytesize.Size   `json:"reserve" usage:"clients are paused while the disk has less room than this"`
	Grace   daemon.Duration `json:"grace" usage:"how long the uploads of a client that is gone stay open; later it goes on with what is on disk"`
}

// PolicyConfig says who gets what until somebody sets a policy.
type PolicyConfig struct {
	File  string `json:"file" usage:"where the policy is kept that was set over the API"`
	First string `json:"first" usage:"YAML file with the policy that holds before one was set; empty gives every client the same"`
}

// Defaults returns the configuration of a gatherer on its own.
func Defaults() *Config {
	return &Config{
		CommonConfig: daemon.CommonDefaults("127.0.0.1:7422"),
		Managers:     []string{"127.0.0.1:7400"}, TrustDomain: identity.DefaultTrustDomain,
		CredentialsDir: "groupcast-data/gatherer/credentials",
		GRPC:           daemon.GRPCConfig{Listen: "127.0.0.1:7420", MaxConnections: 10000},
		Data:           DataConfig{Listen: "127.0.0.1:7421", Addresses: []string{}},
		Store:          StoreConfig{Dir: "groupcast-data/gatherer/gathered", Reserve: 256 << 20, Grace: daemon.Duration(time.Minute)},
		Policy:         PolicyConfig{File: "groupcast-data/gatherer/policy.yaml"},
		Controller:     window.Default, Exec: []string{},
	}
}

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	var problems []error
	note := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	note(len(c.Managers) > 0, "managers is empty: want their host:port, as in 127.0.0.1:7400")
	for _, address := range slices.Concat(c.Managers, c.Data.Addresses, []string{c.GRPC.Listen, c.Data.Listen}) {
		_, _, err := net.SplitHostPort(address)
		note(err == nil, "%q is not host:port", address)
	}
	note(c.TrustDomain != "", "trustDomain is empty")
	note(c.CredentialsDir != "", "credentialsDir is empty: name a directory")
	note(c.Store.Dir != "", "store.dir is empty: name a directory")
	note(c.Store.Grace >= 0, "store.grace is %v: want 0 or more", c.Store.Grace)
	note(c.Policy.File != "", "policy.file is empty: name a file")
	_, err := window.New(c.Controller, window.Options{})
	note(err == nil, "controller: %v", err)
	_, err = c.first()
	note(err == nil, "policy.first: %v", err)
	return errors.Join(problems...)
}

// first returns the policy that holds before one was set.
func (c *Config) first() (policy.Policy, error) {
	if c.Policy.First == "" {
		return policy.Policy{}, nil
	}
	text, err := os.ReadFile(c.Policy.First)
	if err != nil {
		return policy.Policy{}, err
	}
	return policy.Parse(text)
}

func (c *Config) uplink() uplink.Config {
	return uplink.Config{
		Endpoints: c.Managers, TrustDomain: c.TrustDomain, CredentialsDir: c.CredentialsDir, Renew: !c.RenewalByOther,
	}
}
