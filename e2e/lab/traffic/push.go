package traffic

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Push is one long-lived connection on which a sender hands bytes to a receiver
// as the application produces them.
type Push struct {
	From, To   *lab.Host
	Port       uint16
	Congestion string
	Received   atomic.Int64 // bytes so far

	offers chan link.Bytes
	conn   net.Conn
	ends   sync.WaitGroup
}

// pendingOffers is how many offers can wait; experiments make far fewer.
const pendingOffers = 1 << 16

// Open connects. Close ends it.
func (p *Push) Open(ctx context.Context) error {
	listener, err := p.To.Listen(ctx, "tcp4", p.To.At(p.Port))
	if err != nil {
		return fmt.Errorf("push to %s: %w", p.To.Name(), err)
	}
	var controls []lab.Control
	if p.Congestion != "" {
		controls = append(controls, lab.Congestion(p.Congestion))
	}
	p.conn, err = p.From.Dial(ctx, "tcp4", p.To.At(p.Port), controls...)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("push to %s: %w", p.To.Name(), err)
	}
	p.offers = make(chan link.Bytes, pendingOffers)
	p.ends.Go(func() { p.receive(listener) })
	p.ends.Go(p.send)
	return nil
}

// Offer gives the connection more to send. It does not wait.
func (p *Push) Offer(size link.Bytes) { p.offers <- size }

// Close drops what has not been sent and ends the connection.
func (p *Push) Close() {
	close(p.offers)
	_ = p.conn.Close()
	p.ends.Wait()
}

func (p *Push) send() {
	block := make([]byte, 64<<10)
	for left := range p.offers {
		for left > 0 {
			n := min(left, link.Bytes(len(block)))
			if _, err := p.conn.Write(block[:n]); err != nil {
				return
			}
			left -= n
		}
	}
}

func (p *Push) receive(listener net.Listener) {
	conn, err := listener.Accept()
	_ = listener.Close()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(&counter{total: &p.Received}, conn)
}
