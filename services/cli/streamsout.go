package cli

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/groupcast/groupcast/sdk"
)

// streamsOut is standard output for streams. It outlives streams and sessions: after a session has expired, a
// stream comes again from its beginning, if that is still kept, and goes on here where it was.
type streamsOut struct {
	to     io.Writer
	unread atomic.Bool // nobody reads standard output any more

	mu  sync.Mutex
	all map[string]*written // by deliveries that have not ended
}

// written is how much of a delivery is on standard output.
type written struct {
	mu    sync.Mutex // held during a write: one that an earlier session has left may go on until somebody reads
	bytes uint64
}

func (o *streamsOut) open(in sdk.Incoming) (sdk.StreamWriter, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[in.ID] == nil {
		o.all[in.ID] = new(written)
	}
	return &streamOut{streamsOut: o, written: o.all[in.ID]}, nil
}

// forget is called when a delivery has ended.
func (o *streamsOut) forget(delivery string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, delivery)
}

func (o *streamsOut) write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.unread.Store(true)
	}
	return n, err
}

// streamOut is one stream on its way to standard output, in one session.
type streamOut struct {
	*streamsOut
	written *written
	came    uint64 // how much came in this session: never more than was written
}

func (s *streamOut) Write(p []byte) (int, error) {
	s.written.mu.Lock()
	defer s.written.mu.Unlock()
	skipped := int(min(s.written.bytes-s.came, uint64(len(p))))
	n, err := s.write(p[skipped:])
	s.written.bytes += uint64(n)
	s.came += uint64(skipped + n)
	return skipped + n, err
}

// WriteDatagram writes a datagram. Datagrams do not come again.
func (s *streamOut) WriteDatagram(d sdk.Datagram) error {
	_, err := s.write(d.Payload)
	return err
}

func (*streamOut) Close() error { return nil }
