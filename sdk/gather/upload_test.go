package gather

import (
	"testing"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
)

// Two uploads of one path at once would each take what the gatherer has of the other for its own.
func TestOnePathHasOneUpload(t *testing.T) {
	client := &Client{running: make(map[string]bool)}
	to := func(path string) *upload { return &upload{client: client, spec: &gatherv1.UploadSpec{Path: path}} }
	first, second := to("log"), to("log")
	if !first.claim() || second.claim() || !to("other").claim() {
		t.Error("two have one path, or two paths are one")
	}
	if _, err := second.run(t.Context()); err == nil || second.claim() {
		t.Errorf("the second is uploaded beside the first, or ends that: %v", err)
	}
	if first.release(); !second.claim() {
		t.Error("the path is not free after the first")
	}
}
