package view

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
)

// What is shown of a record may be larger than the record: a page is cut by what is shown, and has one record at least. No more is made up than
// has room.
func TestFillCutsByWhatIsShown(t *testing.T) {
	made := 0
	show := func(sizes ...int) func(func(*agentv1.Agent) bool) {
		return func(yield func(*agentv1.Agent) bool) {
			for _, size := range sizes {
				made++
				if !yield(&agentv1.Agent{Zone: string(make([]byte, size))}) {
					return
				}
			}
		}
	}
	for _, test := range []struct {
		name  string
		sizes []int
		want  int
	}{
		{"none", nil, 0},
		{"all", []int{1, 2, 3}, 3},
		{"the first is too large", []int{2 * messageBytes, 1}, 1},
		{"some", []int{messageBytes / 2, messageBytes / 3, messageBytes / 4, messageBytes / 5, 1, 1}, 2},
	} {
		made = 0
		page, all := Fill(show(test.sizes...))
		if len(page) != test.want || all != (test.want == len(test.sizes)) || made > test.want+1 {
			t.Errorf("%s: %d of %v, all: %v; %d were made", test.name, len(page), test.sizes, all, made)
		}
		if size := proto.Size(&agentv1.ListAgentsResponse{Agents: slices.Clip(page)}); len(page) > 1 && size > messageBytes*11/10 {
			t.Errorf("%s: a page has %d bytes", test.name, size)
		}
	}
}
