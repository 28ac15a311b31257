package gather_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	netlink "github.com/groupcast/groupcast/e2e/lab/link"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/sdk/gather"
)

// C64: of 500 simultaneous clients 20 keep the windows that they are shown, and send nothing. The gatherer is
// stopped while all others send what they may: even then, what waits to be read takes no more of the kernel's
// memory than receive buffers may have. When the gatherer goes on, so does everybody.
func TestC64BuffersOfACrowd(t *testing.T) {
	const crowd, stalled, memory = 480, 20, 12 << 20
	const perConnection = 100 // sessions: HTTP/2 allows no more streams
	s := &site{TB: t}
	network := labtest.New(t, 641)
	manager, server, far, router := network.Host("manager"), network.Host("server"), network.Host("crowd"), network.Router("router")
	network.Link(router, server, netlink.Shape{Rate: 200 * netlink.Mbit, Delay: time.Millisecond, Queue: netlink.Size(16 * netlink.MiB)})
	network.Link(far, router, netlink.Shape{Rate: 400 * netlink.Mbit, Delay: 2 * time.Millisecond})
	labtest.Start(t, network)
	f, err := fleet.Start(t.Context(), manager)
	t.Cleanup(func() { s.must(f.Close()) })
	s.must(err)
	gatherer, err := f.Gatherer(t.Context(), server, gather.Policy{}, "--data-memory", fmt.Sprint(memory), "--store-grace=10m")
	s.must(err)
	s.grpc, s.data = server.At(fleet.GathererPort), server.At(fleet.GathererDataPort)
	s.must(f.Reach(t.Context(), far))
	var l *liar

	ctx, leave := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer leave()
	all := s.newFlood()
	begun := time.Now()
	for i := range crowd + stalled {
		if i%perConnection == 0 {
			l = s.liarFrom(f.Access(), fleet.Dialer{Host: far})
		}
		session, detach := l.attach(fmt.Sprint("c", i))
		defer detach()
		conn, err := l.dial(l.openAs(session, &gatherv1.UploadSpec{Path: "log", Stream: true}), nil)
		s.must(err)
		if i < stalled {
			running.Go(func() { alive(ctx, conn) })
		} else {
			running.Go(func() { all.send(ctx, conn) })
		}
	}
	s.must(gatherer.Stop())
	close(all.begun)
	pause(time.Second) // not long enough to make a link count as silent
	held := s.buffers(gatherer)
	s.must(gatherer.Continue())
	sum := 0
	for _, one := range held {
		sum += one
	}
	t.Logf("%v; %d connections hold %d bytes", time.Since(begun), len(held), sum)
	if len(held) != crowd+stalled {
		t.Errorf("%d connections are there, want %d", len(held), crowd+stalled)
	}
	if sum > memory {
		t.Errorf("what waits takes %d bytes, want at most %d", sum, memory)
	}
	s.await("all go on whose link was not given up meanwhile", func() bool {
		going, ended := all.count()
		return going+ended == crowd
	})
	if _, ended := all.count(); ended > crowd/4 {
		t.Errorf("%d of %d links were given up", ended, crowd)
	}
}

// flood is what many clients send without end, from when it begins.
type flood struct {
	zeros *os.File
	begun chan struct{}

	mu    sync.Mutex
	acked map[*torrent]uint64
	ended int
}

// torrent is what one of them sends.
type torrent struct{ *flood }

const atOnce = 64 << 10

func (s *site) newFlood() *flood {
	zeros, err := os.CreateTemp(memory(s.TB), "zeros")
	s.must(err)
	s.Cleanup(func() { zeros.Close() })
	s.must(zeros.Truncate(atOnce))
	return &flood{zeros: zeros, begun: make(chan struct{}), acked: make(map[*torrent]uint64)}
}

// send sends until the link ends, which it should not.
func (f *flood) send(ctx context.Context, conn *link.Conn) {
	one := &torrent{f}
	_ = link.NewFeeding(ctx, 0, one, link.Options{}).Run(conn)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.acked, one)
	f.ended++
}

// count returns how many clients have sent more than a window, and how many have ended.
func (f *flood) count() (going, ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, acked := range f.acked {
		if acked > 2*atOnce {
			going++
		}
	}
	return going, f.ended
}

func (o *torrent) Next(_, most uint64) (link.Portion, error) {
	select {
	case <-o.begun:
		return link.Portion{File: o.zeros, Length: min(most, atOnce)}, nil
	default:
		return link.Portion{Changed: o.begun}, nil
	}
}

func (o *torrent) Sent(uint64, link.Portion) {}

func (o *torrent) Acked(upTo uint64, _ relay.Level) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acked[o] = upTo
	return nil
}

// buffers returns, for each data connection of a gatherer, how much of the kernel's memory is taken by what waits to be read.
func (s *site) buffers(of *lab.Process) (all []int) {
	s.Helper()
	process, err := unix.PidfdOpen(of.Pid(), 0)
	s.must(err)
	defer unix.Close(process)
	dir := fmt.Sprintf("/proc/%d/fd", of.Pid())
	files, err := os.ReadDir(dir)
	s.must(err)
	for _, file := range files {
		if target, err := os.Readlink(filepath.Join(dir, file.Name())); err != nil || !strings.HasPrefix(target, "socket:") {
			continue
		}
		number, err := strconv.Atoi(file.Name())
		s.must(err)
		socket, err := unix.PidfdGetfd(process, number, 0)
		s.must(err)
		if isData(socket) {
			all = append(all, s.held(socket))
		}
		s.must(unix.Close(socket))
	}
	return all
}

// isData reports whether a socket is a data connection.
func isData(socket int) bool {
	if _, err := unix.Getpeername(socket); err != nil {
		return false // it is a listener
	}
	at, err := unix.Getsockname(socket)
	here, is := at.(*unix.SockaddrInet6) // its listener listened on all addresses
	return err == nil && is && here.Port == fleet.GathererDataPort
}

// held returns how much memory is taken by what waits to be read from a socket: the first number of SO_MEMINFO.
func (s *site) held(socket int) int {
	s.Helper()
	var numbers [9]uint32
	size := uint32(unsafe.Sizeof(numbers))
	if _, _, err := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(socket), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&numbers)), uintptr(unsafe.Pointer(&size)), 0); err != 0 {
		s.Fatal(err)
	}
	return int(numbers[0])
}
