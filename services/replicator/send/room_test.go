package send

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// crowd has receivers join, of each as many earlier ones as it was before it began anew.
func crowd(s *session, receivers, earlier int) {
	for n := range receivers {
		for i := range earlier + 1 {
			var key [wire.PublicSize]byte
			binary.BigEndian.PutUint64(key[8:], uint64(n*(earlier+1)+i)+1)
			s.joined[key] = &peer{who: who{name: fmt.Sprint("r", n)}, isOld: i < earlier, since: time.Now()}
		}
	}
}

// As many receivers as may are served where each has begun anew, as all do that have something else of the same length; and no more
// are. A receiver that begins anew again and again is not taken any more, and keeps nobody out.
func TestReceiversAreCountedOnce(t *testing.T) {
	tests := map[string]struct {
		receivers, earlier int
		by                 string
		want               bool
	}{
		"one more":                     {maxMembers - 1, 1, "new", true},
		"one too many":                 {maxMembers, 0, "new", false},
		"one of all begins anew":       {maxMembers, 1, "r1", true},
		"it begins anew for ever":      {1, mostOwnLately - 1, "r0", false},
		"another does for ever":        {1, mostOwn, "new", true},
		"too many have begun in total": {mostBegun / mostOwnLately, mostOwnLately - 1, "new", false},
	}
	for name, tt := range tests {
		s, _ := turning(t)
		crowd(s, tt.receivers, tt.earlier)
		if got := s.hasRoom(who{name: tt.by}); got != tt.want {
			t.Errorf("%s: there is room: %t", name, got)
		}
	}
	s, _ := turning(t)
	crowd(s, maxMembers-1, 1)
	if hears(t, s, says(0, 1, wire.Joining{Name: "new"})); s.joined[publicOf(1)] == nil {
		t.Error("it is not taken in")
	}
}

// A receiver that began anew too often is taken again after a while, and each time it is not, that is logged once; but not for ever.
func TestWhoBeginsAnewSeldomIsTaken(t *testing.T) { synctest.Test(t, whoBeginsAnewSeldomIsTaken) }

func whoBeginsAnewSeldomIsTaken(t *testing.T) {
	s, _ := turning(t)
	var log strings.Builder
	s.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	crowd(s, 1, mostOwnLately-1)
	for n := range 3 {
		if s.hasRoom(who{name: "r0"}) || strings.Count(log.String(), "it began anew too often") != 1 {
			t.Errorf("try %d: it is taken, or said is %q", n+1, &log)
		}
	}
	time.Sleep(lately)
	if !s.hasRoom(who{name: "r0"}) {
		t.Error("after a while it is not taken")
	}
	crowd(s, 1, mostOwn-1)
	time.Sleep(lately)
	if s.hasRoom(who{name: "r0"}) {
		t.Error("it is taken for ever")
	}
}

// What a receiver calls itself is shown without harm: it moves no terminal's cursor, and can be written as JSON.
func TestNamesOfReceiversAreShownWithoutHarm(t *testing.T) {
	s, _ := turning(t)
	hears(t, s, says(0, 1, wire.Joining{Name: "\x1b[2J", LAN: "\xe9tage", Refused: wire.NoRoom, Detail: "full"}))
	if all := s.receipts(); len(all) != 1 || all[0].Name != `\x1b[2J` || all[0].LAN != `\xe9tage` {
		t.Errorf("it is shown as %+v", all)
	}
}
