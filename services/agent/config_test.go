package agent_test

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/services/agent"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := agent.Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	config := agent.Defaults()
	config.Managers = nil
	config.Data.Listen = "7410"
	config.Data.Addresses = []string{"node-7"}
	config.Cache.Bytes, config.Cache.Dir = 1000, ""
	config.Data.Stripes, config.Data.LeastStripes = 17, 0
	err := config.Validate()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{
		"managers is empty", `data.listen is "7410": want host:port, as in 0.0.0.0:7410`, `data.addresses: "node-7" is not host:port, as 10.0.0.7:7410`,
		"cache.dir is empty", "cache.bytes is 1kB: want at least 1MiB",
		"data.stripes is 17: want 1 to 16", "data.leastStripes is 0",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}
