package agent

import (
	"errors"
	"fmt"
	"net"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Config is an agent's configuration.
type Config struct {
	daemon.CommonConfig

	uplink.ServiceConfig

	Node  string      `json:"node" usage:"name of the machine; members on it are fed from here; empty is its host name"`
	Zone  string      `json:"zone" usage:"where the machine is, as ZONE or ZONE/RACK: a delivery enters each zone, and each rack of it, once"`
	Data  DataConfig  `json:"data"`
	Cache CacheConfig `json:"cache"`
}

// DataConfig says where neighbours reach the agent.
type DataConfig struct {
	Listen    string        `json:"listen" usage:"address of the data port"`
	Addresses []string      `json:"addresses" usage:"where neighbours reach the data port, as host:port; empty is where it listens, or this machine's addresses if that is everywhere"`
	Hosts     []string      `json:"hosts" usage:"names or addresses alone where neighbours reach the data port, in place of data.addresses; the port is the one listened on"`
	Uplink    bytesize.Size `json:"uplink" usage:"bytes per second that this machine can send, as 125MB: agents that can send more feed more, and it is no limit; 0 is what its network interface states"`
	// How many of them serve a link is found out while it runs.
	Stripes      int `json:"stripes" usage:"connections that a link to another agent, a member or a sender has at most, 1 to 16"`
	LeastStripes int `json:"leastStripes" usage:"connections that it has at least, if its other end allows it"`
}

// CacheConfig says where deliveries are cached.
type CacheConfig struct {
	Dir   string        `json:"dir" usage:"directory of the cache, on a disk or in memory (tmpfs)"`
	Bytes bytesize.Size `json:"bytes" usage:"how much the cache holds at most, as 512MiB or 4GiB; less where its disk has less room"`
	// Reserve is what is left to others on the disk.
	Reserve bytesize.Size `json:"reserve" usage:"how much of its disk the cache leaves free, a third of the disk at most"`
	Sharers int           `json:"sharers" usage:"how many agents share that disk: each takes its part of what is free"`
}

// Defaults returns the configuration of an agent on its own.
func Defaults() *Config {
	return &Config{
		CommonConfig:  daemon.CommonDefaults("127.0.0.1:7411"),
		ServiceConfig: uplink.ServiceDefaults("groupcast-data/agent/credentials"),
		Data:          DataConfig{Listen: "127.0.0.1:7410", Addresses: []string{}, Hosts: []string{}, Stripes: parallel.Most, LeastStripes: 1},
		Cache:         CacheConfig{Dir: "groupcast-data/agent/cache", Bytes: 4 << 30, Reserve: 256 << 20, Sharers: 1},
	}
}

// LeastCache is the least that a cache can have: some blocks under way.
const LeastCache = 1 << 20

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	var problems []error
	note := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	_, _, err := net.SplitHostPort(c.Data.Listen)
	note(err == nil, "data.listen is %q: want host:port, as in 0.0.0.0:7410", c.Data.Listen)
	for _, address := range c.Data.Addresses {
		host, _, err := net.SplitHostPort(address)
		note(err == nil && host != "", "data.addresses: %q is not host:port, as 10.0.0.7:7410", address)
	}
	note(len(c.Data.Hosts) == 0 || len(c.Data.Addresses) == 0, "data.hosts and data.addresses: name one")
	note(c.Data.Stripes >= 1 && c.Data.Stripes <= parallel.Most, "data.stripes is %d: want 1 to %d", c.Data.Stripes, parallel.Most)
	note(c.Data.LeastStripes >= 1 && c.Data.LeastStripes <= c.Data.Stripes, "data.leastStripes is %d: want 1 to data.stripes, %d", c.Data.LeastStripes, c.Data.Stripes)
	note(c.Cache.Dir != "", "cache.dir is empty: name a directory")
	note(c.Cache.Sharers >= 1, "cache.sharers is %d: want at least 1", c.Cache.Sharers)
	note(c.Cache.Bytes >= LeastCache, "cache.bytes is %v: want at least %v", c.Cache.Bytes, bytesize.Size(LeastCache))
	return errors.Join(append(problems, c.Check())...)
}
