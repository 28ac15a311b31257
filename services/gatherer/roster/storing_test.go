package roster_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/policy"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// place says where what comes to a sink goes.
type place func(to sink.Sink, offset uint64) (link.Place, int64, error)

// hangingWriter is a writer whose disk hangs.
type hangingWriter struct{ hangs func() }

func (w hangingWriter) Write(p []byte) (int, error) {
	w.hangs()
	return len(p), nil
}

// A client keeps its place while what came of it waits for a disk that hangs: what it sends meanwhile stays in the socket. Once that is
// written, a client that sends nothing more gives its place up, also in the middle of a frame.
func TestPlaceIsKeptWhileTheDiskHangs(t *testing.T) {
	for what, hanging := range map[string]func(hangs func()) place{
		"in a write": func(hangs func()) place {
			return func(to sink.Sink, offset uint64) (link.Place, int64, error) {
				_, most, err := to.Place(offset)
				return link.Place{To: hangingWriter{hangs}}, most, err
			}
		},
		"before a write": func(hangs func()) place {
			return func(to sink.Sink, offset uint64) (link.Place, int64, error) {
				hangs()
				return to.Place(offset)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, limited(policy.Queue), nil)
			hangs, answers := make(chan struct{}), make(chan struct{})
			f.PlaceWith(hanging(sync.OnceFunc(func() {
				close(hangs)
				<-answers
			})))
			first := f.attach("large-1")
			opened := f.open(first, file("f", 7))
			client, ended := f.link(first, opened)
			defer ended()
			f.must(client.Send(append(wire.Header{Type: wire.Data, Length: 7}.Append(nil), "con"...)))
			<-hangs
			second := f.attach("large-2")
			f.BringNothing("large-1", policy.PlaceFor)
			f.wantPaused("the disk hangs", map[string]string{"large-2": roster.Queued})
			close(answers)
			f.await("it is written", func() bool { return opened.Upload.Offset() == 3 })
			f.await("the place goes to another", func() bool {
				f.BringNothing("large-1", policy.PlaceFor)
				f.Review()
				return second.Told().Paused == ""
			})
		})
	}
}

// link opens a client's link to an upload, which ended closes and waits for.
func (f *fixture) link(session *roster.Session, opened roster.Opened) (client *link.Conn, ended func()) {
	f.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	f.must(err)
	gatherer := identity.ID{Role: identity.Gatherer, Name: "gatherer"}
	of := func(id identity.ID) identity.TLS {
		source, err := identity.NewSelfIssued(ca, id)
		f.must(err)
		return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source}
	}
	server, caller := of(gatherer), of(session.Peer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	var serving errgroup.Group
	serving.Go(func() error {
		raw, err := listener.Accept()
		if err != nil {
			return err
		}
		asked, err := link.Accept(f.Context(), raw, server)
		if err == nil {
			f.Serve(f.Context(), asked)
		}
		return err
	})
	hello := wire.Hello{Offer: true, Delivery: opened.Upload.ID, Capability: opened.Ticket, Stripes: 1, TreeVersion: 1}
	client, _, err = link.Dial(f.Context(), &net.Dialer{}, listener.Addr().String(), caller, gatherer, hello)
	f.must(err)
	return client, func() {
		client.Close()
		f.must(serving.Wait())
		listener.Close()
	}
}
