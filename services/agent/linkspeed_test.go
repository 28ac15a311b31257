package agent

import (
	"os"
	"path/filepath"
	"testing"
)

// The speed that a physical interface states is the agent's uplink. What a virtual one states is not, and if none states any it is unknown.
func TestLinkSpeedIsWhatTheInterfaceStates(t *testing.T) {
	for name, c := range map[string]struct {
		files     map[string]string // below the interface that has 127.0.0.1
		addresses []string
		want      uint64
	}{
		"physical":        {map[string]string{"device/vendor": "x", "speed": "1000\n"}, []string{"127.0.0.1:7410"}, 125e6},
		"bonded":          {map[string]string{"bonding/slaves": "eth0 eth1\n", "speed": "20000\n"}, []string{"127.0.0.1:7410"}, 2500e6},
		"virtual":         {map[string]string{"speed": "10000\n"}, []string{"127.0.0.1:7410"}, 0},
		"without a cable": {map[string]string{"device/vendor": "x", "speed": "-1\n"}, []string{"127.0.0.1:7410"}, 0},
		"says nothing":    {map[string]string{"device/vendor": "x"}, []string{"127.0.0.1:7410"}, 0},
		"behind a name":   {map[string]string{"device/vendor": "x", "speed": "1000\n"}, []string{"node-1:7410"}, 0},
		"not the first":   {map[string]string{"device/vendor": "x", "speed": "1000\n"}, []string{"192.0.2.1:7410", "127.0.0.1:7410"}, 125e6},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(dir, "lo", file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := linkSpeed(dir, c.addresses); got != c.want {
				t.Errorf("%d bytes per second, want %d", got, c.want)
			}
		})
	}
}

// A configured uplink counts, whatever the interface states.
func TestUplinkIsTold(t *testing.T) {
	config := Defaults()
	config.Data.Uplink = 5e6
	registration, err := registrationOf(config, 0, "127.0.0.1:7410")
	if err != nil {
		t.Fatal(err)
	}
	if got := registration.GetCapacity().GetUplinkBytesPerSecond(); got != 5e6 {
		t.Errorf("%d bytes per second, want 5 MB", got)
	}
}
