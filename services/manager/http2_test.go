package manager_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// memoryCap is what a manager may take while it is attacked.
const memoryCap = 150 << 20

// The manager is a process of its own, so that its memory can be told from the attacker's.
func TestC28HostilePeers(t *testing.T) {
	p := managertest.NewProcess(t, t.TempDir())
	p.Start(t)
	p.WaitServing(t)
	own := issue(t, caIn(t, filepath.Join(p.Dir, "ca")), identity.ID{Role: identity.Operator, Name: "rogue"})
	for _, attack := range []struct {
		name string
		run  func(t *testing.T, address string, own *tls.Certificate)
	}{
		{"rapid reset", rapidReset},
		{"stream flood", streamFlood},
		{"100 MiB message", func(t *testing.T, address string, own *tls.Certificate) { largeMessage(t, address, own, 100<<20) }},
		{"4 MiB and a byte", func(t *testing.T, address string, own *tls.Certificate) { largeMessage(t, address, own, 4<<20+1) }},
		{"long name", longName},
		{"large header", largeHeader},
		{"header bomb", headerBomb},
		{"endless header", endlessHeader},
		{"ping flood", pingFlood},
		{"path without slash", pathWithoutSlash},
		{"no HTTP/2", noHTTP2},
	} {
		t.Run(attack.name, func(t *testing.T) {
			attack.run(t, p.Address, own)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := p.Client(t).Status(ctx); err != nil {
				t.Errorf("another client afterwards: %v", err)
			}
			if taken := peakMemory(t, p.PID()); taken > memoryCap {
				t.Errorf("the manager took %d MiB, want at most %d", taken>>20, memoryCap>>20)
			}
		})
	}
}

// CVE-2023-44487: a stream that is reset no longer counts, but its handler may still run.
func rapidReset(t *testing.T, address string, own *tls.Certificate) {
	h := attack(t, address, own)
	for stream := range streams(10_000) {
		h.open(stream, groupv1.GroupService_WatchGroups_FullMethodName)
		h.send(func(f *http2.Framer) error { return f.WriteRSTStream(stream, http2.ErrCodeCancel) })
	}
	h.flush()
}

// Streams over the limit are refused. Who opens far more than that at once is cut off.
func streamFlood(t *testing.T, address string, own *tls.Certificate) {
	const limit = 1000
	flood := func(opened uint32) (refused uint32, goesOn bool) {
		h := attack(t, address, own)
		for stream := range streams(opened) {
			h.open(stream, groupv1.SessionService_KeepSession_FullMethodName)
		}
		for refused < opened-limit {
			switch frame := h.next().(type) {
			case *http2.RSTStreamFrame:
				if frame.ErrCode == http2.ErrCodeRefusedStream {
					refused++
				}
			case nil:
				return refused, false
			}
		}
		return refused, true
	}
	if refused, goesOn := flood(2*limit - 100); !goesOn {
		t.Errorf("the connection ended when %d of %d streams over the limit were refused", refused, limit-100)
	}
	if refused, goesOn := flood(20 * limit); goesOn {
		t.Errorf("the connection goes on after %d streams over the limit", refused)
	}
}

func largeMessage(t *testing.T, address string, own *tls.Certificate, size int) {
	request := &groupv1.GetGroupRequest{Name: strings.Repeat("x", size)}
	_, err := groupv1.NewGroupServiceClient(connect(t, address, own)).GetGroup(t.Context(), request, grpc.MaxCallSendMsgSize(2*size))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%.200v, want ResourceExhausted", err)
	}
}

// An answer must not repeat at length what the caller said.
func longName(t *testing.T, address string, own *tls.Certificate) {
	connection := connect(t, address, own)
	long := strings.Repeat("x", 1<<20)
	for _, err := range []error{
		call(t, connection, "groupcast.group.v1.GroupService", "GetGroup", &groupv1.GetGroupRequest{Name: long}),
		call(t, connection, "groupcast.group.v1.GroupService", "CreateGroup", &groupv1.CreateGroupRequest{Name: long}),
		call(t, connection, "groupcast.group.v1.SessionService", "Leave", &groupv1.LeaveRequest{Group: long, Name: long}),
		call(t, connection, "groupcast.group.v1.IdentityService", "CreateToken", &groupv1.CreateTokenRequest{Role: long, Name: long}),
		call(t, connection, "groupcast.group.v1.IdentityService", "RevokeIdentity", &groupv1.RevokeIdentityRequest{Role: long, Name: long}),
	} {
		if code := status.Code(err); code != codes.NotFound && code != codes.InvalidArgument {
			t.Errorf("%.200v, want NotFound or InvalidArgument", err)
		}
		if length := len(err.Error()); length > 4096 {
			t.Errorf("the answer has %d characters: %.200v", length, err)
		}
	}
}

func largeHeader(t *testing.T, address string, own *tls.Certificate) {
	h := attack(t, address, own)
	h.open(1, groupv1.ManagerService_GetStatus_FullMethodName, hpack.HeaderField{Name: "x-large", Value: strings.Repeat("x", 17<<10)})
	h.wantRefusal(1)
}

// A header that is short on the wire can be long in memory: one entry of the
// compression table, named again and again.
func headerBomb(t *testing.T, address string, own *tls.Certificate) {
	h := attack(t, address, own)
	entry := hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("x", 3<<10)}
	bomb := make([]hpack.HeaderField, 10_000)
	for i := range bomb {
		bomb[i] = entry
	}
	h.open(1, groupv1.ManagerService_GetStatus_FullMethodName, bomb...)
	h.wantRefusal(1)
}

// CVE-2023-45288: a header that never ends.
func endlessHeader(t *testing.T, address string, own *tls.Certificate) {
	h := attack(t, address, own)
	block := h.headers(groupv1.ManagerService_GetStatus_FullMethodName)
	h.send(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
	})
	more := bytes.Repeat(h.literal("x-more", strings.Repeat("x", 1000)), 10)
	for sent := 0; h.err == nil; sent += len(more) {
		if sent > 64<<20 {
			t.Fatalf("the manager took %d MiB of one header", sent>>20)
		}
		h.send(func(f *http2.Framer) error { return f.WriteContinuation(1, false, more) })
		h.flush()
	}
}

func pingFlood(t *testing.T, address string, own *tls.Certificate) {
	h := attack(t, address, own)
	for range 100 {
		h.send(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
	}
	h.flush()
	for {
		switch frame := h.next().(type) {
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeEnhanceYourCalm || string(frame.DebugData()) != "too_many_pings" {
				t.Errorf("goodbye %v %q, want too_many_pings", frame.ErrCode, frame.DebugData())
			}
			return
		case nil:
			t.Fatal("the connection was closed without saying why")
		}
	}
}

// A path that another reader takes for the same must not get past the rules.
func pathWithoutSlash(t *testing.T, address string, _ *tls.Certificate) {
	h := attack(t, address, nil)
	h.open(1, strings.TrimPrefix(groupv1.GroupService_ListGroups_FullMethodName, "/"))
	h.send(func(f *http2.Framer) error { return f.WriteData(1, true, make([]byte, 5)) }) // an empty message
	h.flush()
	for {
		switch frame := h.next().(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range frame.Fields {
				if field.Name == "grpc-status" && field.Value == fmt.Sprint(int(codes.OK)) {
					t.Error("it was answered")
				}
			}
			if frame.StreamEnded() {
				return
			}
		case *http2.DataFrame:
			t.Fatal("it was answered with data")
		case *http2.RSTStreamFrame, nil:
			return
		}
	}
}

func noHTTP2(t *testing.T, address string, own *tls.Certificate) {
	connection, err := tls.Dial("tcp", address, trusting(own))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "GET /metrics HTTP/1.1\r\nHost: manager\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, connection)
}

func TestC28SilentConnections(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	plain, err := net.Dial("tcp", m.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	secured, err := tls.Dial("tcp", m.Address, trusting(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer secured.Close()
	wantClosed(t, plain)   // never began the TLS handshake
	wantClosed(t, secured) // never began HTTP/2
}

func TestC28SilentStreams(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	operator := connect(t, m.Address, issue(t, caOf(t, m), identity.ID{Role: identity.Operator, Name: "o"}))
	agent := connect(t, m.Address, issue(t, caOf(t, m), identity.ID{Role: identity.Agent, Name: "a"}))
	session, err := groupv1.NewSessionServiceClient(operator).KeepSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	control, err := agentv1.NewAgentServiceClient(agent).Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Recv()
	wantSilent(t, "KeepSession", err)
	_, err = control.Recv()
	wantSilent(t, "Control", err)
}

func wantSilent(t *testing.T, method string, err error) {
	t.Helper()
	if status.Code(err) != codes.DeadlineExceeded || uplink.Reason(err) != "SILENT" {
		t.Errorf("%s ended with %v (%s), want SILENT", method, err, uplink.Reason(err))
	}
}

// wantClosed waits for the server to close a connection by itself.
func wantClosed(t *testing.T, connection net.Conn) {
	t.Helper()
	connection.SetReadDeadline(time.Now().Add(15 * time.Second))
	_, err := io.Copy(io.Discard, connection)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

// hostile speaks HTTP/2 as no client would.
type hostile struct {
	t       *testing.T
	conn    *tls.Conn
	out     bytes.Buffer
	framer  *http2.Framer
	encoded bytes.Buffer
	encoder *hpack.Encoder
	frames  chan http2.Frame // what the server answers, until it closes
	err     error            // of writing: the server may close at any time
}

func attack(t *testing.T, address string, own *tls.Certificate) *hostile {
	t.Helper()
	conn, err := tls.Dial("tcp", address, trusting(own))
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	h := &hostile{t: t, conn: conn, frames: make(chan http2.Frame, 20_000)}
	h.framer = http2.NewFramer(&h.out, nil)
	h.encoder = hpack.NewEncoder(&h.encoded)
	ended := make(chan struct{})
	go h.read(ended)
	t.Cleanup(func() {
		close(ended)
		conn.Close()
	})
	h.out.WriteString(http2.ClientPreface)
	h.send(func(f *http2.Framer) error { return f.WriteSettings() })
	return h
}

// read keeps the server's frames for next: an attacker that does not read would be slowed down.
func (h *hostile) read(ended <-chan struct{}) {
	defer close(h.frames)
	framer := http2.NewFramer(nil, h.conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		select {
		case h.frames <- frame:
		case <-ended:
			return
		}
	}
}

// next returns the server's next frame; nil when it has closed the connection.
func (h *hostile) next() http2.Frame {
	h.t.Helper()
	h.flush()
	select {
	case frame := <-h.frames:
		return frame
	case <-time.After(20 * time.Second):
		h.t.Fatal("the server says nothing more")
		return nil
	}
}

// send adds a frame to what is to be written.
func (h *hostile) send(write func(*http2.Framer) error) {
	if err := write(h.framer); err != nil {
		h.t.Fatal(err)
	}
	if h.out.Len() > 32<<10 {
		h.flush()
	}
}

func (h *hostile) flush() {
	if h.err == nil {
		_, h.err = h.conn.Write(h.out.Bytes())
	}
	h.out.Reset()
}

// open begins a call on a stream.
func (h *hostile) open(stream uint32, method string, more ...hpack.HeaderField) {
	block := h.headers(method, more...)
	first := block[:min(len(block), 16<<10)]
	block = block[len(first):]
	h.send(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(block) == 0})
	})
	for len(block) > 0 {
		part := block[:min(len(block), 16<<10)]
		block = block[len(part):]
		h.send(func(f *http2.Framer) error { return f.WriteContinuation(stream, len(block) == 0, part) })
	}
}

func (h *hostile) headers(method string, more ...hpack.HeaderField) []byte {
	h.encoded.Reset()
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "https"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "manager"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, more...) {
		if err := h.encoder.WriteField(field); err != nil {
			h.t.Fatal(err)
		}
	}
	return bytes.Clone(h.encoded.Bytes())
}

// literal encodes a field that stays out of the compression table.
func (h *hostile) literal(name, value string) []byte {
	h.encoded.Reset()
	if err := h.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}); err != nil {
		h.t.Fatal(err)
	}
	return bytes.Clone(h.encoded.Bytes())
}

// wantRefusal waits until the server resets the stream, answers it with an error, or closes the connection.
func (h *hostile) wantRefusal(stream uint32) {
	h.t.Helper()
	for {
		switch frame := h.next().(type) {
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return
			}
		case *http2.MetaHeadersFrame:
			for _, field := range frame.Fields {
				if field.Name == ":status" && field.Value == "200" {
					h.t.Fatalf("the server accepts it: %v", frame.Fields)
				}
			}
			return
		case *http2.GoAwayFrame, nil:
			return
		}
	}
}

// streams yields the ids of the first n streams that a client opens.
func streams(n uint32) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for i := range n {
			if !yield(2*i + 1) {
				return
			}
		}
	}
}

// peakMemory returns how many bytes of memory a process had at most.
func peakMemory(t testing.TB, pid int) (size int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &size); err == nil {
			return size << 10
		}
	}
	t.Fatalf("no VmHWM in %q", text)
	return 0
}
