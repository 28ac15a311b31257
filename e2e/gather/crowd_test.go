package gather_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/sdk/gather"
)

// C64: 500 clients come at once; 20 of them open connections, keep what they are shown, and send nothing, and have the minimums of 240
// others. Of those, whoever fits into the other 60's place is let in, and the rest wait; all files arrive complete. Stalled clients get
// nothing that others could use.
func TestC64CrowdAndStalled(t *testing.T) {
	const crowd, stalled = 480, 20
	s := start(t)
	s.policy("default: {minimum: 100kB}\nrules: [{clients: [stalled-*], minimum: 1200kB}]\nlink: 30MB\nadmission: queue")
	l := s.liar()
	ctx, stop := context.WithCancel(t.Context())
	var living sync.WaitGroup
	defer living.Wait()
	defer stop()
	for i := range stalled {
		session, leave := l.attach(fmt.Sprint("stalled-", i))
		defer leave()
		conn, err := l.dial(l.open(session, "f", 1<<30), nil)
		s.must(err)
		living.Go(func() { alive(ctx, conn) })
	}
	name, content := s.file("f", 1, 64<<10)
	ended := s.letIn()
	failures := s.all(crowd, name)
	in, queued := ended()
	t.Logf("at most %d of the crowd were let in at once, and %d waited", in, queued)
	if in > 60 || queued == 0 {
		t.Errorf("%d of the crowd were let in at once, and %d waited, where 60 have room", in, queued)
	}
	for _, err := range failures[:min(len(failures), 3)] {
		t.Error(err)
	}
	if len(failures) > 0 {
		t.Errorf("%d of %d uploads failed", len(failures), crowd)
	}
	for i := range crowd {
		s.wantFile(fmt.Sprint("c", i), "f", content)
	}
	for _, status := range s.clients() {
		if status.GetAttached() && status.GetPaused() != "" { // a client whose session broke had to wait again, although it had sent everything
			t.Errorf("%s still waits: %s", status.GetName(), status.GetPaused())
		}
		if strings.HasPrefix(status.GetName(), "stalled-") && status.GetBytesPerSecond() > 1000 { // more than signs of life
			t.Errorf("%s stalls, and is said to bring %d bytes/s", status.GetName(), status.GetBytesPerSecond())
		}
	}
}

// C64: a client that just waits for something to send gives up its place to one that waits to be let in. It loses
// nothing by that: its stream goes on, when it is its turn, once it has something to send.
func TestC64QuietClientGivesUpItsPlace(t *testing.T) {
	s := start(t)
	s.policy("default: {minimum: 1MB}\nlink: 1MB\nadmission: queue")
	quiet, to := s.pipe("quiet")
	write := func(text string) {
		t.Helper()
		_, err := to.WriteString(text)
		s.must(err)
	}
	wantThere := func(content string) {
		t.Helper()
		s.await("what is written comes", func() bool { return string(s.stored("quiet", "in")) == content })
	}
	write("first, ")
	wantThere("first, ")
	name, content := s.file("f", 1, 1<<20)
	if p := s.upload("other", name); p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("other", "f", content)
	write("then")
	wantThere("first, then")
	s.must(to.Close())
	if quiet.status() != 0 {
		t.Error(quiet.said.String())
	}
}

// letIn looks how many of a crowd have a place, and how many wait for one, until ended is called, which returns the most of each.
func (s *site) letIn() (ended func() (in, queued int)) {
	s.Helper()
	operator, err := gather.Open(s.Context(), s.access(), s.grpc, gather.Options{})
	s.must(err)
	ctx, stop := context.WithCancel(s.Context())
	var looking sync.WaitGroup
	in, queued := 0, 0
	looking.Go(func() {
		for ; ctx.Err() == nil; pause(50 * time.Millisecond) {
			all, err := operator.Clients(ctx)
			if err != nil {
				continue // the next look says more
			}
			nowIn, nowQueued := 0, 0
			for _, client := range all.Clients {
				switch {
				case !client.Attached || !strings.HasPrefix(client.Name, "c"):
				case client.Paused == "queued":
					nowQueued++
				default:
					nowIn++
				}
			}
			in, queued = max(in, nowIn), max(queued, nowQueued)
		}
	})
	return func() (int, int) {
		stop()
		looking.Wait()
		s.must(operator.Close())
		return in, queued
	}
}

// all makes many clients upload a file at once, and returns the failures.
func (s *site) all(clients int, name string) (failures []error) {
	s.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range clients {
		client, err := gather.Open(s.Context(), s.access(), s.grpc, gather.Options{As: fmt.Sprint("c", i)})
		s.must(err)
		running.Go(func() {
			defer client.Close()
			if _, err := client.Upload(s.Context(), name, gather.FileOptions{Path: filepath.Base(name)}); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, fmt.Errorf("c%d: %w", i, err))
			}
		})
	}
	running.Wait()
	return failures
}

// C63: what a client says about itself is not believed: more waiting than there is in the world, uploads
// longer than any disk, hundreds of labels, and a name that it may not have. It gains nothing by that, and
// others upload.
func TestC63AbsurdClaims(t *testing.T) {
	s := start(t)
	s.policy("rules: [{labels: {tier: gold}, priority: 9, target: 1GB}]\ndefault: {target: 1MB}")
	l, operator := s.liarFrom(s.enroll("liar"), &net.Dialer{}), s.liar() // labels that an operator states count
	labels := map[string]string{"tier": "gold"}
	for i := range 500 {
		labels[fmt.Sprint("label-", i)] = "x"
	}
	stream, err := l.rpc.Attach(t.Context())
	s.must(err)
	s.must(stream.Send(&gatherv1.AttachRequest{Client: "liar", Labels: labels, WaitingBytes: math.MaxUint64}))
	told, err := stream.Recv()
	s.must(err)
	for _, spec := range []*gatherv1.UploadSpec{
		{Path: "huge", Length: math.MaxUint64},
		{Path: "huge", Length: math.MaxInt64},
		{Path: "huge", Length: 1 << 62},
		{Path: "../../etc/passwd", Length: 1},
		{Path: "", Length: 1},
		{Path: "a\x00b", Length: 1},
	} {
		answer, err := l.rpc.OpenUpload(t.Context(), &gatherv1.OpenUploadRequest{Session: told.GetSession(), Spec: spec})
		if err == nil && answer.GetUpload() == "" {
			t.Errorf("%q of %d bytes: neither opened nor refused", spec.GetPath(), spec.GetLength())
		}
		if err == nil && spec.GetPath() != "huge" {
			t.Errorf("%q is opened", spec.GetPath())
		}
	}
	for _, name := range []string{"../x", "a/b", "A B", string(make([]byte, 1000))} {
		other, err := operator.rpc.Attach(t.Context())
		s.must(err)
		s.must(other.Send(&gatherv1.AttachRequest{Client: name, Labels: labels}))
		if _, err := other.Recv(); err == nil {
			t.Errorf("%.20q may be a client's name", name)
		}
	}
	if connections := told.GetConnections(); connections != 1 {
		t.Errorf("it is told to have %d connections", connections)
	}
	name, content := s.file("f", 1, 1<<20)
	if p := s.upload("other", name); p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("other", "f", content)
	if status := s.status("liar"); status.GetShare().GetPriority() != 0 || status.GetShare().GetTargetBytesPerSecond() != 1e6 {
		t.Errorf("the liar has %+v", status.Share)
	}
}
