package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// A member that is interrupted has left, and goes on when the same command joins again, whether it had come late or not.
func TestUnfinishedSaysWhatGoesOn(t *testing.T) {
	var all underWay
	all.begins(sdk.Incoming{ID: "1", Name: "f", Sender: "alice"})
	all.begins(sdk.Incoming{ID: "2", Name: "kept", Sender: "alice", Late: true})
	all.begins(sdk.Incoming{ID: "3", Name: "log", Sender: "alice", Kind: sdk.Stream})
	var said bytes.Buffer
	all.unfinished(&said, &pull{into: "in"})
	const want = "f from alice is unfinished; what came is kept, and the same command goes on from there\n" +
		"kept from alice is unfinished; what came is kept, and the same command goes on from there\n" +
		"log from alice is unfinished; what came is kept in in, as a file that ends with .incomplete\n"
	if said.String() != want {
		t.Errorf("it says\n%s", said.String())
	}
}

// A member that is to receive one delivery says that it waits if nothing that is kept is new to it; not if something has begun.
func TestPullOnceSaysThatItWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		begins bool
		wait   time.Duration
		want   string
	}{
		"nothing is new":        {false, time.Minute, "nothing that is kept is new to alice: waiting for the next push\n"},
		"something has begun":   {true, time.Minute, ""},
		"it has ended by then":  {false, time.Second, ""},
		"it has begun and done": {true, time.Second, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var all underWay
			var said bytes.Buffer
			stop := all.sayNothingNew(t.Context(), &said, "alice")
			if tt.begins {
				all.begins(sdk.Incoming{ID: "1"})
				all.ends("1")
			}
			time.Sleep(tt.wait)
			stop()
			if said.String() != tt.want {
				t.Errorf("%s: it says %q, want %q", name, said.String(), tt.want)
			}
		})
	}
}

// An error in a policy names its file.
func TestPolicyIsToldWithItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("rules: [{maxx: 1}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readPolicy(t.Context(), file)
	if sdk.CodeOf(err) != sdk.InvalidArgument || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), "maxx") {
		t.Errorf("%v", err)
	}
}

// For a stream that goes on, the command also says how much there is in all: what was added might be taken for the whole.
func TestStreamThatGoesOnIsToldInAll(t *testing.T) {
	for before, want := range map[uint64]string{0: "a/s.stream  3 B\n", 4: "a/s.stream  3 B, 7 B in all\n"} {
		var out bytes.Buffer
		a := &app{stdout: &out, stderr: new(bytes.Buffer)}
		shown := newUploading(a)
		shown.before = before
		if a.uploaded(shown, gather.Uploaded{Path: "a/s.stream", Bytes: 3}); !strings.HasSuffix(out.String(), "  "+want) {
			t.Errorf("after %d bytes: %q, want %q", before, out.String(), want)
		}
	}
}
