package replicator

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Config is a replicator's configuration.
type Config struct {
	daemon.CommonConfig

	uplink.ServiceConfig

	Settings
}

// Settings say what a replicator does, whoever runs it: those of one in a standalone server are the same.
type Settings struct {
	Node    string        `json:"node" usage:"name of the machine; empty is its host name"`
	LANs    []string      `json:"lans" usage:"LANs that this machine is on, each as NAME=INTERFACE, as rack1=eth0, or NAME=NETWORK for the interface with an address of that, as rack1=10.1.0.0/16, which a machine without one leaves out; without NAME= it is the LAN named lan; the first leads to LANs that it is not on"`
	Labels  []string      `json:"labels" usage:"what replications can select this machine by, each as KEY=VALUE"`
	Sources []string      `json:"sources" usage:"directories below which everything may be replicated from here, and block devices that may be"`
	Targets []string      `json:"targets" usage:"directories below which replicas may be written; for groupcast-standalone, empty is replicator/replicas below its data"`
	Devices []string      `json:"devices" usage:"block devices that may be overwritten"`
	State   string        `json:"state" usage:"directory that says after an interruption how much of a device is there; for groupcast-standalone, empty is replicator/state below its data"`
	TTL     int           `json:"ttl" usage:"how many networks a packet may see: 1 stays in the LAN"`
	Rate    bytesize.Size `json:"rate" usage:"bytes per second to send at most of each replication, on each LAN; 0 is what the network interface can"`

	Reserve bytesize.Size `json:"reserve" usage:"bytes of each disk that replicas in directories leave to others; 0 leaves nothing"`

	DiskPatience daemon.Duration `json:"diskPatience" usage:"how long a disk may not answer at all until what waits for it fails; one that is slow is waited for; 0 is for ever"`
}

// defaultLAN is what a LAN is called that was given no name.
const defaultLAN = "lan"

// Defaults returns the configuration of a replicator on its own.
func Defaults() *Config {
	return &Config{
		CommonConfig:  daemon.CommonDefaults("127.0.0.1:7432"),
		ServiceConfig: uplink.ServiceDefaults("groupcast-data/replicator/credentials"),
		Settings: Settings{
			LANs: []string{}, Labels: []string{}, Sources: []string{}, Devices: []string{},
			Targets: []string{"groupcast-data/replicator/replicas"}, State: "groupcast-data/replicator/state", TTL: 1,
			DiskPatience: daemon.Duration(5 * time.Minute),
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
	note(len(c.LANs) > 0, "lans is empty: name the network interface that leads to the LAN, as rack1=eth0")
	seen := make(map[string]bool)
	for _, lan := range c.lans() {
		err := identity.CheckName(lan.name)
		note(err == nil, "lans: %v", err)
		note(lan.device != "", "lans: %q names no network interface: want NAME=INTERFACE", lan.name)
		note(!seen[lan.name], "lans: %q is named twice: want one network interface for each LAN", lan.name)
		seen[lan.name] = true
	}
	labels, err := daemon.ParseLabels(c.Labels)
	note(err == nil, "labels: %v", err)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		note(key != "lan" && key != "node" && key != "name", "labels: %q is no key for a label: selectors ask for the replicator's own with it", key)
	}
	for _, path := range slices.Concat(c.Sources, c.Targets, c.Devices) {
		note(path != "", "sources, targets, devices: a path is empty: name one, or leave it out")
	}
	note(c.TTL >= 1 && c.TTL <= 255, "ttl is %d: want 1 to 255", c.TTL)
	note(c.DiskPatience >= 0, "diskPatience is %v: it cannot be negative", c.DiskPatience)
	return errors.Join(append(problems, c.Check())...)
}

// absolute returns paths as others name them.
func absolute(paths ...string) (all []string, err error) {
	for _, path := range paths {
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		all = append(all, whole)
	}
	return all, nil
}
