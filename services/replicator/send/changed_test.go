package send

import (
	"errors"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// overwritten is a source that has changed.
type overwritten struct{ Source }

func (overwritten) Changed() error { return object.ErrChanged }

// Whom something else came to than was hashed may have it from a source that was changed in the meantime: for whoever comes late it is
// read again. Where nobody says so, it is nobody's matter what becomes of the source.
func TestDamagedFromASourceThatHasChanged(t *testing.T) {
	shape, err := algo.ShapeOf(1e6, 1472)
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[wire.Reason]error{wire.Damaged: object.ErrChanged, wire.Disk: nil} {
		s, _ := turning(t)
		s.config.Source, s.shape = overwritten{}, shape
		if s.rules, err = algo.NewSender(algo.Settings{Shape: shape, Ceiling: 1e6, Window: 100, Patience: time.Second}, time.Now()); err != nil {
			t.Fatal(err)
		}
		p := &peer{Joining: wire.Joining{Name: "a"}, id: s.rules.Join(time.Now())}
		s.peers = append(s.peers, p)
		if err := s.rules.Report(p.id, wire.Reported{State: wire.Failed, Reason: reason}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := (&loop{session: s}).changed(); !errors.Is(err, want) {
			t.Errorf("where a receiver says %v: %v, want %v", reason, err, want)
		}
	}
}
