package sink

import (
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// waiting bounds how many sinks wait for the disk at once. Each takes a thread meanwhile, and if the disk stands, thousands of uploads
// would take more than a process may have.
var waiting = make(chan struct{}, 128)

// bounded is a sink that waits for its turn before it may have to wait for the disk.
type bounded struct{ Sink }

func (b bounded) Place(offset uint64) (link.Place, int64, error) {
	defer turn()()
	return b.Sink.Place(offset)
}

func (b bounded) Landed(upTo uint64) error {
	defer turn()()
	return b.Sink.Landed(upTo)
}

func (b bounded) Commit() (uint64, error) {
	defer turn()()
	return b.Sink.Commit()
}

func (b bounded) Finish(length uint64, root object.Root) (string, error) {
	defer turn()()
	return b.Sink.Finish(length, root)
}

func (b bounded) Close() error {
	defer turn()()
	return b.Sink.Close()
}

// turn waits until few enough others wait for the disk, and returns what ends the turn.
func turn() (done func()) {
	waiting <- struct{}{}
	return func() { <-waiting }
}
