package standalone_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/gatherer"
	"github.com/groupcast/groupcast/services/replicator"
	"github.com/groupcast/groupcast/services/standalone"
)

// process is the settings of the process of every service that has managers.
type process struct {
	daemon.CommonConfig
	uplink.ServiceConfig
}

func (*process) Validate() error { return nil }

// The server's gatherer and replicator have every setting of one on its own, except for those of its process.
func TestPartsHaveAllSettings(t *testing.T) {
	has, others := flags(standalone.Defaults()), flags(&process{})
	for part, alone := range map[string]daemon.Config{"gatherer": gatherer.Defaults(), "replicator": replicator.Defaults()} {
		for _, flag := range flags(alone) {
			if below := "--" + part + "-" + strings.TrimPrefix(flag, "--"); !slices.Contains(others, flag) && !slices.Contains(has, below) {
				t.Errorf("groupcast-%s has %s, and groupcast-standalone no %s", part, flag, below)
			}
		}
	}
	if !slices.Contains(has, "--gatherer-exec") || !slices.Contains(has, "--replicator-lans") {
		t.Errorf("no flags were found: %v", has)
	}
}

// A replicator needs a LAN: settings that would do nothing are refused.
func TestReplicatorNeedsALAN(t *testing.T) {
	config := standalone.Defaults()
	config.Replicator.Sources = []string{"/srv"}
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "replicator.lans is empty") {
		t.Errorf("%v", err)
	}
	config.Replicator.LANs = []string{"eth0"}
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
}

// flags returns the flags that a help text names.
func flags(of daemon.Config) (names []string) {
	for _, line := range regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(daemon.Usage("any", of), -1) {
		names = append(names, line[1])
	}
	return names
}
