package sink

import "testing"

// CommittedName is the file that says what of a stream is on disk.
const CommittedName = committedName

// Segments makes segments smaller for a test.
func Segments(t testing.TB, size uint64) {
	before := segmentSize
	segmentSize = size
	t.Cleanup(func() { segmentSize = before })
}
