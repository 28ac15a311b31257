package sink

import "testing"

// CommittedName is the file that says how much of a stream is on disk.
const CommittedName = committedName

// Segments makes segments smaller for a test.
func Segments(t testing.TB, size uint64) {
	before := segmentSize
	segmentSize = size
	t.Cleanup(func() { segmentSize = before })
}

// Record returns the content of a slot of the record, and where it is in the file.
func Record(slot int, committed uint64) (record []byte, at int64) {
	return recordOf(committed), int64(slot) * slotSize
}

// RemoveAfter looks at a file as retention does, removes it after something else has happened, and reports whether it has.
func RemoveAfter(path string, meanwhile func()) (bool, error) {
	one, err := keptAt(path)
	if err != nil {
		return false, err
	}
	meanwhile()
	return one.remove()
}
