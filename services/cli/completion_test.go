package cli

import (
	"bytes"
	"strings"
	"testing"
)

// A flag that takes one of some words is completed to these, which may differ by the command, and never to files.
func TestFlagsAreCompletedToTheirWords(t *testing.T) {
	for flag, want := range map[string]string{
		"token create --role": "member agent gatherer replicator operator", "join --role": "send receive", "group create --roles": "send receive",
		"group update --data-plane": "tls plaintext", "push --slow": "pace detach evict", "replicate --slow": "pace detach",
		"soma figures --format": "svg png",
	} {
		var said bytes.Buffer
		status := Main(append([]string{"groupcast", "__complete"}, append(strings.Fields(flag), "")...), &said, new(bytes.Buffer))
		if got := strings.Join(strings.Fields(said.String()), " "); status != exitOK || got != want+" :4" {
			t.Errorf("%s: status %d, completed to %q, want %q", flag, status, got, want)
		}
	}
}
