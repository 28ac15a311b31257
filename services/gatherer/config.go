package gatherer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Config is a gatherer's configuration.
type Config struct {
	daemon.CommonConfig

	uplink.ServiceConfig

	Settings
}

// Settings say how a gatherer gathers, whether on its own or in a standalone server.
type Settings struct {
	GRPC          daemon.GRPCConfig `json:"grpc"`
	Addresses     []string          `json:"addresses" usage:"where clients reach the gRPC port, as host:port, which the managers tell those that name this gatherer; empty is where it listens, at data.hosts or this machine's addresses if that is everywhere"`
	Labels        []string          `json:"labels" usage:"labels of this gatherer, as site=a"`
	Data          DataConfig        `json:"data"`
	Store         StoreConfig       `json:"store"`
	Policy        PolicyConfig      `json:"policy"`
	Controller    string            `json:"controller" usage:"who decides about windows and connections: groupcast, or one of the papers' methods to compare with: gathering, buffers, proposed, spring, mehra, matsuo; traditional leaves all to the kernel"`
	CheckInterval daemon.Duration   `json:"checkInterval" usage:"how often the controller proposed compares round trips; 0 is the thesis's 5s"`
	Exec          []string          `json:"exec" usage:"command that is run for each file that is finished, with the file as its last argument; empty runs none"`
	ExecTime      daemon.Duration   `json:"execTime" usage:"how long that command may take for a file: then it, and what it has started, is ended; 0 is no limit"`
}

// DataConfig says where clients send their bytes.
type DataConfig struct {
	Listen    string        `json:"listen" usage:"address of the data port"`
	Addresses []string      `json:"addresses" usage:"where clients reach the data port, as host:port; empty is where it listens, or this machine's addresses if that is everywhere"`
	Hosts     []string      `json:"hosts" usage:"names or addresses alone where clients reach the data port, in place of data.addresses; the port is the one listened on"`
	Plaintext bool          `json:"plaintext" usage:"bytes come unencrypted over data connections, each of which still proves whose it is; for networks that are trusted"`
	Memory    bytesize.Size `json:"memory" usage:"what the receive buffers of all data connections may take together: windows are made to fit, by priority; 0 is a quarter of the memory that this process may have"`
	Interface string        `json:"interface" usage:"network interface of the link that clients share, as eth0: what else comes over it is left its part, where the policy says what the link carries; empty counts uploads alone"`
}

// StoreConfig says where the bytes go.
type StoreConfig struct {
	Dir     string          `json:"dir" usage:"directory that every client has a directory in; for groupcast-standalone, empty is gatherer/gathered below its data"`
	Reserve bytesize.Size   `json:"reserve" usage:"how much room the disk is left: clients are asked for no more, and paused meanwhile"`
	Grace   daemon.Duration `json:"grace" usage:"how long the uploads of a client that is gone stay open; later it goes on with what is on disk"`

	KeepFor   daemon.Duration `json:"keepFor" usage:"files, and the whole segments of streams, are removed that came so long ago; 0 keeps them"`
	KeepBytes bytesize.Size   `json:"keepBytes" usage:"the oldest are removed of a client that has more bytes here; 0 keeps them"`
}

// PolicyConfig says who gets what until somebody sets a policy.
type PolicyConfig struct {
	File  string `json:"file" usage:"where the policy is kept that was set over the API; for groupcast-standalone, empty is gatherer/policy.yaml below its data"`
	First string `json:"first" usage:"YAML file with the policy that holds before one was set; empty gives every client the same"`
}

// Defaults returns the configuration of a gatherer on its own.
func Defaults() *Config {
	return &Config{
		CommonConfig:  daemon.CommonDefaults("127.0.0.1:7422"),
		ServiceConfig: uplink.ServiceDefaults("groupcast-data/gatherer/credentials"),
		Settings: Settings{
			GRPC:      daemon.GRPCConfig{Listen: "127.0.0.1:7420", MaxConnections: 10000},
			Data:      DataConfig{Listen: "127.0.0.1:7421", Addresses: []string{}, Hosts: []string{}},
			Store:     StoreConfig{Dir: "groupcast-data/gatherer/gathered", Reserve: 256 << 20, Grace: daemon.Duration(time.Minute)},
			Policy:    PolicyConfig{File: "groupcast-data/gatherer/policy.yaml"},
			Addresses: []string{}, Labels: []string{}, Controller: window.Default, Exec: []string{}, ExecTime: daemon.Duration(10 * time.Minute),
		},
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
	for _, of := range []struct {
		key       string
		addresses []string
	}{{"grpc.listen", []string{c.GRPC.Listen}}, {"data.listen", []string{c.Data.Listen}}, {"data.addresses", c.Data.Addresses}, {"addresses", c.Addresses}} {
		for _, address := range of.addresses {
			_, _, err := net.SplitHostPort(address)
			note(err == nil, "%s: %q is not host:port, as 10.0.0.7:7420", of.key, address)
		}
	}
	note(len(c.Data.Hosts) == 0 || len(c.Data.Addresses) == 0, "data.hosts and data.addresses: name one")
	_, err := daemon.ParseLabels(c.Labels)
	note(err == nil, "labels: %v", err)
	note(c.Store.Dir != "", "store.dir is empty: name a directory")
	note(c.Store.Grace >= 0, "store.grace is %v: want 0 or more", c.Store.Grace)
	note(c.Store.KeepFor >= 0, "store.keepFor is %v: want 0 or more", c.Store.KeepFor)
	note(c.CheckInterval >= 0, "checkInterval is %v: want 0 or more", c.CheckInterval)
	note(c.ExecTime >= 0, "execTime is %v: want 0 or more", c.ExecTime)
	note(c.Policy.File != "", "policy.file is empty: name a file")
	_, err = window.New(c.Controller, window.Options{})
	note(err == nil, "controller: %v", err)
	if _, err := c.first(); err != nil {
		note(false, "policy.first: %s", printable.OneLine(err.Error()))
	}
	return errors.Join(append(problems, c.Check())...)
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
