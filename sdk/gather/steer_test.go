package gather

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// steering is a gatherer with a data port. It says how many connections there are to be, and what may be sent.
type steering struct {
	gatherv1.GatherServiceClient
	*testing.T
	security identity.TLS
	port     net.Listener
	told     chan *gatherv1.AttachResponse
	paused   string // why the client is to pause
	to       *os.File
	serving  sync.WaitGroup

	mu      sync.Mutex
	taking  *link.Taking
	living  int // data connections
	answer  link.Answer
	changed chan struct{}
}

// steer returns a gatherer and a client of it, until the test ends.
func steer(t *testing.T) (*steering, *Client) {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	must(t, err)
	own, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Gatherer, Name: "g"})
	must(t, err)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	to, err := os.Create(filepath.Join(t.TempDir(), "came"))
	must(t, err)
	s := &steering{
		T: t, security: identity.TLS{TrustDomain: ca.TrustDomain, Source: own}, port: port, to: to, changed: make(chan struct{}),
		told: make(chan *gatherv1.AttachResponse, 1), answer: link.Answer{Level: relay.Received, TreeVersion: 1},
	}
	s.serving.Go(s.accept)

	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Member, Name: "alice"}, 1)
	must(t, err)
	config := uplink.Config{Endpoints: []string{"127.0.0.1:1"}, TrustDomain: ca.TrustDomain, CredentialsDir: t.TempDir()}
	must(t, identity.FilesIn(config.CredentialsDir).Write(bundle))
	client, err := Dial(t.Context(), config, port.Addr().String(), Options{})
	must(t, err)
	client.rpc = s
	t.Cleanup(func() {
		client.Close()
		port.Close()
		s.serving.Wait()
		to.Close()
	})
	return s, client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *steering) accept() {
	for {
		raw, err := s.port.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() { s.serve(raw) })
	}
}

func (s *steering) serve(raw net.Conn) {
	asked, err := link.Accept(context.Background(), raw, s.security)
	if err != nil {
		return
	}
	s.mu.Lock()
	if !asked.Join {
		s.taking = link.NewTaking(context.Background(), 0, s, link.Options{Bounds: parallel.Bounds{Least: 1, Most: parallel.Most}})
	}
	taking := s.taking
	s.mu.Unlock()
	conn, err := asked.Welcome(relay.Welcome{TreeVersion: 1})
	if err != nil {
		return
	}
	s.count(1)
	defer s.count(-1)
	if asked.Join {
		_ = taking.Join(conn) // the link tells
	} else {
		_ = taking.Run(conn) // the client tells
	}
}

func (s *steering) count(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.living += more
}

// Section, Landed, End and Answer implement link.Store.
func (s *steering) Section(offset uint64) (link.Place, int64, error) {
	return link.Place{File: s.to, At: int64(offset)}, 1 << 40, nil
}

func (s *steering) Landed(upTo uint64) error {
	s.say(func(answer *link.Answer) { answer.Ack = upTo })
	return nil
}

func (s *steering) End(link.End) error {
	s.say(func(answer *link.Answer) { answer.Done = true })
	return nil
}

func (s *steering) Answer() link.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answer
	answer.Changed = s.changed
	return answer
}

// say changes what the client is told over its data connections.
func (s *steering) say(change func(*link.Answer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.answer)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *steering) Attach(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], error) {
	return &steered{attach(ctx), s.told}, nil
}

func (s *steering) OpenUpload(context.Context, *gatherv1.OpenUploadRequest, ...grpc.CallOption) (*gatherv1.OpenUploadResponse, error) {
	return &gatherv1.OpenUploadResponse{Upload: strings.Repeat("07", 16), Addresses: []string{s.port.Addr().String()}, Gatherer: "g"}, nil
}

func (*steering) FinishUpload(context.Context, *gatherv1.FinishUploadRequest, ...grpc.CallOption) (*gatherv1.FinishUploadResponse, error) {
	return &gatherv1.FinishUploadResponse{Path: "alice/f"}, nil
}

// steered is a control stream on which directives come.
type steered struct {
	*attached
	directives <-chan *gatherv1.AttachResponse
}

func (s *steered) Recv() (*gatherv1.AttachResponse, error) {
	select {
	case told := <-s.directives:
		return told, nil
	case <-s.left:
	case <-s.ctx.Done():
	}
	return nil, context.Canceled
}

// directs tells the client how many connections to have, and waits until it has them.
func (s *steering) directs(connections int) {
	s.Helper()
	s.told <- &gatherv1.AttachResponse{Session: "s", Connections: uint32(connections), Paused: s.paused}
	has := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.living
	}
	for deadline := time.Now().Add(10 * time.Second); has() != connections; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("there are %d connections, want %d", has(), connections)
		}
	}
}

// A client has as many data connections as the gatherer says on the control stream, when that is more and when it is fewer, sends
// nothing while it is to pause, and everything comes.
func TestClientHasTheConnectionsThatItIsTold(t *testing.T) {
	gatherer, client := steer(t)
	content := bytes.Repeat([]byte("sample "), 100_000)
	file := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(file, content, 0o600))
	uploaded := make(chan error, 1)
	go func() {
		_, err := client.Upload(t.Context(), file, FileOptions{})
		uploaded <- err
	}()
	for _, connections := range []int{1, 4, 2} {
		gatherer.directs(connections)
	}
	gatherer.paused = "queued"
	gatherer.directs(3)
	gatherer.say(func(answer *link.Answer) { answer.Credit = uint64(len(content)) })
	time.Sleep(200 * time.Millisecond) // in which all would come
	if came, err := gatherer.to.Stat(); err != nil || came.Size() > 0 {
		t.Errorf("%d bytes come while the client is to pause: %v", came.Size(), err)
	}
	gatherer.told <- &gatherv1.AttachResponse{Session: "s", Connections: 2}
	must(t, <-uploaded)
	if came, err := os.ReadFile(gatherer.to.Name()); err != nil || !bytes.Equal(came, content) {
		t.Errorf("%d bytes came of %d, or other ones: %v", len(came), len(content), err)
	}
}
