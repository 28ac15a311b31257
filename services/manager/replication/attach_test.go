package replication

import (
	"testing"
	"time"
)

// A sender waits for those that are online, and not for one that is silent already.
func TestWhoIsHeard(t *testing.T) {
	stream := new(Attachment)
	d := &Desk{started: begin, presences: map[string]*presence{
		"heard":  {attachment: stream, since: begin, heard: after(9)},
		"silent": {attachment: stream, since: begin, heard: after(5)},
		"closed": {since: after(10), heard: after(10)},
	}}
	for name, want := range map[string]bool{"heard": true, "silent": false, "closed": false, "unknown": false} {
		if got := d.isHeard(name, begin.Add(10*time.Second)); got != want {
			t.Errorf("%s is heard: %v", name, got)
		}
	}
}
