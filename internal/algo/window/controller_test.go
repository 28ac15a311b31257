package window_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/window"
)

func TestUnknownControllerIsNamedWithTheKnown(t *testing.T) {
	_, err := window.New("gropcast", window.Options{})
	if err == nil || !strings.Contains(err.Error(), "gropcast") || !strings.Contains(err.Error(), window.Traditional) {
		t.Error(err)
	}
}

// 001 §4.2: "the traditional scheme, which has no special control".
func TestTraditionalTouchesNothing(t *testing.T) {
	c, err := window.New(window.Traditional, window.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Step(time.Unix(0, 0), window.Facts{Clients: []window.Client{
		{Name: "a", Connections: []window.Connection{{ID: 3}, {ID: 4}}}, {Name: "b"},
	}})
	want := window.Decision{Shares: []window.Share{
		{Name: "a", Reason: window.Untouched, Bottleneck: window.None, Windows: []window.Window{{ID: 3, State: window.Persistent}, {ID: 4, State: window.Persistent}}},
		{Name: "b", Reason: window.Untouched, Bottleneck: window.None, Windows: []window.Window{}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || c.First() != 0 {
		t.Error(c.First(), diff)
	}
}
