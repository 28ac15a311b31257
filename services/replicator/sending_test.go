package replicator

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// No LAN waits for another: the root that the managers confirm replicas by is told once one has it. How much is sent
// is that of the LAN which is behind, as long as that is not out of it.
func TestLANsHoldNobodyBack(t *testing.T) {
	for name, out := range map[string]func(*leg){
		"nobody":  func(l *leg) { l.nobody = true },
		"refused": func(l *leg) { l.refused = true },
		"failed":  func(l *leg) { l.failed = errors.New("network is unreachable") },
	} {
		w := newWorker(slog.New(slog.DiscardHandler), nil, nil, newMetrics(prometheus.NewRegistry()), nil, "r1")
		j := &job{sending: new(replicav1.SendReport)}
		legs := []*leg{{task: &replicav1.Leg{Lan: "a"}}, {task: &replicav1.Leg{Lan: "b"}}}
		w.sent(j, legs, 1, send.Progress{Sent: 100, Length: 100, Root: object.Root{1}})
		if len(j.sending.GetRoot()) == 0 || j.sending.GetSentBytes() != 100 {
			t.Errorf("%s: before the other LAN begins, %d bytes were sent, and the root is %x", name, j.sending.GetSentBytes(), j.sending.GetRoot())
		}
		w.sent(j, legs, 0, send.Progress{Sent: 10, Length: 100})
		if len(j.sending.GetRoot()) == 0 || j.sending.GetSentBytes() != 10 {
			t.Errorf("%s: with one LAN behind, %d bytes were sent, and the root is %x", name, j.sending.GetSentBytes(), j.sending.GetRoot())
		}
		w.giveUp(j, legs, func() { out(legs[0]) })
		if j.sending.GetSentBytes() != 100 {
			t.Errorf("%s: with that one out, %d bytes were sent", name, j.sending.GetSentBytes())
		}
	}
}

// What a source that cannot be opened is called is said once; what another part of the way there is called, too.
func TestSourceThatIsNotThereIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	p := &places{sources: []string{dir}}
	for path, want := range map[string]string{
		dir + "/x":      "open " + dir + "/x: no such file or directory",
		dir + "/no/x":   "open " + dir + "/no/x: lstat " + dir + "/no: no such file or directory",
		"/etc/hostname": "open /etc/hostname: not allowed here: /etc/hostname is not below one of sources (" + dir + ") in the configuration of this replicator",
	} {
		_, err := p.source(t.Context(), path, false)
		if err = opening(path, err); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
