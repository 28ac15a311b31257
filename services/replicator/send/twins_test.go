package send

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// A receiver whose place another of its name took, and which goes on to join, is another, unless that is what it said before and was only late:
// it is waited for beside that, however often both say that they are there.
func TestWhoGoesOnToJoinIsAnother(t *testing.T) { synctest.Test(t, whoGoesOnToJoinIsAnother) }

func whoGoesOnToJoinIsAnother(t *testing.T) {
	s, _ := turning(t)
	say := func(number uint64, member byte) { hears(t, s, says(number, member, wire.Joining{Name: "a"})) }
	want := func(names ...string) {
		t.Helper()
		var got []string
		for _, p := range s.joined {
			got = append(got, p.called())
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			t.Errorf("%q have joined, want %q", got, names)
		}
	}
	say(0, 1)
	say(0, 2)
	say(1, 1)
	want("a")
	if !slices.Equal(slices.Collect(maps.Keys(s.joined)), [][wire.PublicSize]byte{publicOf(2)}) {
		t.Error("what was late puts out the one that came then")
	}
	time.Sleep(overtaken)
	for number := range uint64(3) {
		say(2+number, 1)
		say(2+number, 2)
		want("a", "a:7")
	}
}
