package cli

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/groupcast/groupcast/sdk"
)

// streamsOut is standard output for streams. It outlives each of them, and sessions: to a member whose
// session has expired a stream comes again from its beginning, and goes on here where it was.
type streamsOut struct {
	to     io.Writer
	unread atomic.Bool // nobody reads it any more

	mu      sync.Mutex
	written map[string]uint64 // how much of each delivery that has not ended
}

func (o *streamsOut) open(in sdk.Incoming) (sdk.StreamWriter, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &streamOut{streamsOut: o, delivery: in.ID, there: o.written[in.ID]}, nil
}

// forget is called when a delivery has ended.
func (o *streamsOut) forget(delivery string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.written, delivery)
}

func (o *streamsOut) write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.unread.Store(true)
	}
	return n, err
}

// streamOut is one stream on its way there.
type streamOut struct {
	*streamsOut
	delivery string
	there    uint64 // bytes of what comes that were written in an earlier session
}

func (s *streamOut) Write(p []byte) (int, error) {
	skipped := int(min(s.there, uint64(len(p))))
	s.there -= uint64(skipped)
	n, err := s.write(p[skipped:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[s.delivery] += uint64(n)
	return skipped + n, err
}

// WriteDatagram writes a datagram. Those do not come again.
func (s *streamOut) WriteDatagram(d sdk.Datagram) error {
	_, err := s.write(d.Payload)
	return err
}

func (*streamOut) Close() error { return nil }
