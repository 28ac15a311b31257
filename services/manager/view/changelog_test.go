package view

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/services/manager/store"
)

// However changes come, and whenever a reader looks, it reads every change once
// and in order, or is told that it cannot.
func TestChangeLogIsNeverSilentlyShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, revision, written := changeLog[int]{base: 1}, store.Revision(1), 0
		read, at := 0, store.Revision(1)
		t.Repeat(map[string]func(*rapid.T){
			"transaction": func(t *rapid.T) {
				revision += store.Revision(rapid.IntRange(1, 3).Draw(t, "gap"))
				for range rapid.IntRange(1, 5).Draw(t, "changes") {
					log.add(revision, written)
					written++
				}
			},
			"flood": func(t *rapid.T) {
				for range rapid.IntRange(1, 3*logLength).Draw(t, "changes") {
					revision++
					log.add(revision, written)
					written++
				}
			},
			"read": func(t *rapid.T) {
				changes, last, complete := log.after(at, rapid.IntRange(1, 100).Draw(t, "limit"))
				if !complete {
					if written-read < logLength {
						t.Fatalf("a reader %d changes behind is told to list again", written-read)
					}
					read, at = written, revision // it lists again
					return
				}
				for _, change := range changes {
					if change != read {
						t.Fatalf("read change %d, want %d", change, read)
					}
					read++
				}
				at = last
			},
			"": func(t *rapid.T) {
				if len(log.entries) > 2*logLength {
					t.Fatalf("the log holds %d changes", len(log.entries))
				}
			},
		})
	})
}
