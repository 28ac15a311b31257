package envoy_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/groupcast/groupcast/sdk"
)

// The answers to callers that ask for long ones and read none wait in Envoy's memory, up to a bound. There these calls are ended, but not the
// container, nor a session that is passed through, nor a probe.
func (s *site) testUnread(t *testing.T) {
	const limit = 512 << 20
	const heap = limit * 2 / 3 // as in the chart
	s.fill(t, "unread")
	p := s.front(t, settings{burst: plenty, perSecond: plenty, heap: heap})
	client, err := sdk.Dial(s.access(p))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.Join(t.Context(), sdk.Join{Group: "unread", Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	own := certificate(t, s.ca, operator)
	var asking sync.WaitGroup
	for range 6 {
		asking.Go(func() {
			for range 2 {
				s.unread(t, p, own, "/v1/groups/unread/members?page_size=1000")
			}
		})
	}
	asking.Wait()
	took := p.most(t)
	t.Logf("it took %d MiB of memory", took>>20)
	if took > limit {
		t.Errorf("it took %d MiB of memory, want %d at most", took>>20, limit>>20)
	}
	answer, err := http.Get("http://" + p.at("7482") + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a probe is answered %s", answer.Status)
	}
	select {
	case <-session.Done():
		t.Errorf("the session of another ended: %v", session.Err())
	default:
	}
}

// unread asks for as many answers as a connection may have, and reads none. It returns when each has come or was ended,
// or the connection was.
func (s *site) unread(t *testing.T, p *proxy, own *tls.Certificate, path string) {
	config := s.shows(t, own)
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", p.at("7481"), config)
	if err != nil {
		return // there is no room for another connection
	}
	t.Cleanup(func() { conn.Close() }) // until then the answers wait
	conn.SetDeadline(time.Now().Add(patience))
	framer := http2.NewFramer(conn, conn)
	fmt.Fprint(conn, http2.ClientPreface)
	framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	streams := 0
	for ended := 0; streams == 0 || ended < streams; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return // the connection was ended
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if most, has := frame.Value(http2.SettingMaxConcurrentStreams); has {
				streams = int(most)
				request(framer, path, streams)
			}
		case *http2.HeadersFrame, *http2.RSTStreamFrame:
			ended++
		}
	}
}

// request asks for a path several times at once.
func request(framer *http2.Framer, path string, times int) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range times {
		block.Reset()
		for _, field := range [][2]string{{":method", http.MethodGet}, {":scheme", "https"}, {":authority", host}, {":path", path}} {
			encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	}
}

// most returns the most memory that the program has had, in bytes.
func (p *proxy) most(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	kibibytes, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes << 10
}
