package cli

import (
	"bytes"
	"testing"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// An upload of files that is interrupted says how much is there, which the same command does not send again.
func TestInterruptedUploadSaysHowFarItCame(t *testing.T) {
	const mebi = 1 << 20
	for name, tt := range map[string]struct {
		heard []gather.Progress
		want  string
	}{
		"a file": {
			[]gather.Progress{{Path: "f", Sent: 98 * mebi, Length: 300 * mebi, Attached: true}, {Path: "f", Sent: 99 * mebi, Length: 300 * mebi, Ended: true}},
			"interrupted: 99 MiB of 300 MiB were sent; the same command goes on from there",
		},
		"a tree": {
			[]gather.Progress{{Files: 7, FilesDone: 3, Sent: 98 * mebi, Length: 300 * mebi, Attached: true}, {Files: 7, FilesDone: 3, Sent: 60 * mebi, Length: 300 * mebi, Ended: true}},
			"interrupted: 3 of 7 files, and 98 MiB of 300 MiB, were sent; the same command goes on from there",
		},
		"nowhere": {
			[]gather.Progress{{Path: "f", Length: mebi, Detached: "connection refused"}},
			"interrupted: nothing was uploaded: not connected: connection refused",
		},
		"at once": {nil, "interrupted: nothing was uploaded"},
	} {
		shown := newUploading(&app{stderr: new(bytes.Buffer)})
		for _, p := range tt.heard {
			shown.show(p)
		}
		if words := shown.words(); words != tt.want {
			t.Errorf("%s: %q, want %q", name, words, tt.want)
		}
	}
}

// A member that leaves a delivery which it was in from the start gets no more of it: what came is for when the same is pushed again. One
// that had come late may come again.
func TestUnfinishedSaysWhatGoesOn(t *testing.T) {
	var all underWay
	all.begins(sdk.Incoming{ID: "1", Name: "f", Sender: "alice"})
	all.begins(sdk.Incoming{ID: "2", Name: "kept", Sender: "alice", Late: true})
	var said bytes.Buffer
	all.unfinished(&said, &pull{into: "in"})
	const want = "f from alice is unfinished; what came is kept, and goes on from there when the same is pushed again\n" +
		"kept from alice is unfinished; what came is kept, and the same command goes on from there\n"
	if said.String() != want {
		t.Errorf("it says\n%s", said.String())
	}
}
