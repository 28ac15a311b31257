package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// A sender reads on once all members that are there have acknowledged what it keeps: one that died, failed or came late holds up nobody.
func TestStreamGoesOnWithoutWhoIsGone(t *testing.T) {
	has := func(state ReceiptState, bytes uint64) Receipt { return Receipt{State: state, Bytes: bytes} }
	for _, tt := range []struct {
		members  int
		receipts []Receipt
		want     uint64
	}{
		{1, nil, 0},
		{2, []Receipt{has(ReceiptReceiving, 7), has(ReceiptReceiving, 5)}, 5},
		{2, []Receipt{has(ReceiptReceiving, 7), has(ReceiptUnknown, 5)}, 7},
		{2, []Receipt{has(ReceiptReceiving, 7), has(ReceiptFailed, 5)}, 7},
		{1, []Receipt{has(ReceiptReceiving, 7), {State: ReceiptReceiving, Late: true}}, 7},
		{1, []Receipt{has(ReceiptUnknown, 5)}, relay.MaxOffset},
	} {
		s := &streamSupply{out: &Outgoing{told: time.Now(), latest: Delivery{Receipts: tt.receipts, Members: tt.members}}}
		if got, _ := s.acknowledged(); got != tt.want {
			t.Errorf("%+v: acknowledged up to %d, want %d", tt.receipts, got, tt.want)
		}
	}
}

// Nothing is given back as long as it is not known what every member has: receipts may not fit into a message, and a manager that stops
// leading only tells those that are final.
func TestStreamIsKeptForWhoIsNotTold(t *testing.T) {
	had := Receipt{State: ReceiptReceiving, Bytes: 7}
	late := Receipt{State: ReceiptReceiving, Bytes: 7, Late: true}
	for name, some := range map[string]Delivery{
		"left out":       {Receipts: []Receipt{had}, LeftOut: []string{"links", "receipts"}},
		"one has failed": {Receipts: []Receipt{{State: ReceiptFailed}}, Members: 3},
		"one is done":    {Receipts: []Receipt{{State: ReceiptComplete, Bytes: 7}}, Members: 2},
		"another late":   {Receipts: []Receipt{had, late}, Members: 2},
	} {
		if got, _ := (&streamSupply{out: &Outgoing{told: time.Now(), latest: some}}).acknowledged(); got != 0 {
			t.Errorf("%s: acknowledged up to %d, want that nothing is", name, got)
		}
	}
}

// While managers say nothing of a stream, or cannot say it of so many members, its sender goes by what its agent says that the members have; but
// not where that leaves out who was detached.
func TestStreamGoesByItsAgentWithoutManagers(t *testing.T) {
	delivery := func(mode ControlMode, slow groupv1.SlowMemberAction, leftOut ...string) Delivery {
		spec := &groupv1.DeliverySpec{SlowMember: &groupv1.SlowMemberPolicy{Action: slow}}
		receipts := []Receipt{{State: ReceiptReceiving, Bytes: 7}}
		return Delivery{ControlMode: mode, Members: 1, Receipts: receipts, LeftOut: leftOut, wire: wire{&groupv1.Delivery{Spec: spec}}}
	}
	const pace, detach = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE, groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH
	for name, tt := range map[string]struct {
		told   time.Duration // ago
		latest Delivery
		want   uint64
	}{
		"managers are there":          {time.Second, delivery(Hop, pace), 7},
		"managers are gone":           {untold, delivery(Hop, pace), 9},
		"hop, detach":                 {untold, delivery(Hop, detach), 9},
		"end to end":                  {untold, delivery(EndToEnd, pace), 9},
		"end to end, detach":          {untold, delivery(EndToEnd, detach), 7},
		"receipts have no room":       {time.Second, delivery(Hop, pace, "receipts"), 9},
		"links have none":             {time.Second, delivery(Hop, pace, "links"), 7},
		"end to end, detach, no room": {untold, delivery(EndToEnd, detach, "receipts"), 0},
	} {
		s := newStreamSupply(&Outgoing{told: time.Now().Add(-tt.told), latest: tt.latest})
		_, _ = s.Acked(11, relay.Relayed), s.Acked(9, relay.Received)
		if got, _ := s.acknowledged(); got != tt.want {
			t.Errorf("%s: acknowledged up to %d, want %d", name, got, tt.want)
		}
	}
}

// A member whose process was killed begins anew, and lacks what it had: that is kept for it.
func TestStreamIsKeptForWhoBeginsAnew(t *testing.T) {
	const receiving = groupv1.ReceiptState_RECEIPT_STATE_RECEIVING
	watched := remembering()
	watched(&groupv1.Delivery{MemberCount: 2, Receipts: receipts(receiving, 40, 50)})
	s := &streamSupply{out: &Outgoing{told: time.Now(), latest: watched(&groupv1.Delivery{MemberCount: 2, Receipts: receipts(receiving, 0, 60)})}}
	if got, _ := s.acknowledged(); got != 0 {
		t.Errorf("acknowledged up to %d, want that nothing is", got)
	}
}

// Receiving a stream into something that nobody reads can be interrupted.
func TestBlockedWritesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		to := &leavable{ctx, in}
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := to.Write([]byte("nobody reads it")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want it interrupted", err)
		}
		_ = out.Close() // the write ends
	})
}

// A Write is handed on, and so is how it ended.
func TestLeavableWritesAreWrites(t *testing.T) {
	out, in := io.Pipe()
	to := &leavable{t.Context(), in}
	go func() {
		if n, err := to.Write([]byte("text")); n != 4 || err != nil {
			t.Errorf("%d bytes and %v, want 4", n, err)
		}
		_ = in.Close()
	}()
	if got, err := io.ReadAll(out); string(got) != "text" || err != nil {
		t.Errorf("%q and %v", got, err)
	}
	if _, err := to.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v, want that the pipe is closed", err)
	}
}

// If the program chooses places, a stream that it gives none is refused; otherwise the reason is that of the disk.
func TestWhyAStreamIsNotOpened(t *testing.T) {
	nothing := &receiving{options: ReceiveOptions{Stream: func(Incoming) (StreamWriter, error) { return nil, nil }}}
	if _, err := nothing.openStream(); !errors.Is(err, errNoWriter) || nothing.whyNotOpened(err) != "refused" {
		t.Errorf("without a writer: %v", err)
	}
	full := &receiving{options: ReceiveOptions{Into: t.TempDir()}}
	if got := full.whyNotOpened(fmt.Errorf("open: %w", unix.ENOSPC)); got != "no_room" {
		t.Errorf("on a full disk: %s", got)
	}
}

// closing is a writer that fails when it is closed, as a buffered one may.
type closing struct {
	io.Writer
	err error
}

func (c closing) Close() error { return c.err }

// A stream that cannot be closed is not complete; one that failed before keeps its own reason.
func TestStreamThatCannotBeClosedFailed(t *testing.T) {
	r := &receiving{incoming: Incoming{Name: "log"}}
	for _, tt := range []struct {
		before, close error
		want          string
	}{
		{nil, nil, "<nil>"},
		{nil, unix.ENOSPC, "no_room: close what the stream went to: no space left on device"},
		{nil, errors.New("broken"), "failed: close what the stream went to: broken"},
		{errors.New("cut off"), errors.New("broken"), "cut off"},
	} {
		one := r.closed(Arrived{Err: tt.before}, closing{io.Discard, tt.close})
		if got := fmt.Sprint(one.Err); got != tt.want {
			t.Errorf("%v, then closed with %v: %s, want %s", tt.before, tt.close, got, tt.want)
		}
	}
}

// Whoever reads a stream from a pipe learns that not all came, and why.
func TestReaderOfAPipeIsToldThatNotAllCame(t *testing.T) {
	r := &receiving{incoming: Incoming{Name: "log"}}
	for _, failure := range []error{nil, &DeliveryError{Reason: "canceled"}} {
		from, to := io.Pipe()
		r.closed(Arrived{Err: failure}, to)
		want := failure
		if want == nil {
			want = io.EOF
		}
		if _, err := from.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("after %v a reader gets %v", failure, err)
		}
	}
}

// A stream gets its name once all of it has come, and has another before that: nobody takes for the whole what a member that is killed
// leaves. Streams of one name do not take each other's place.
func TestStreamHasItsNameWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	receive := func(text string) *streamFile {
		t.Helper()
		file, err := createStream(dir, "log")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return file
	}
	want := func(name, text string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != text || err != nil {
			t.Errorf("%s has %q, want %q: %v", name, got, text, err)
		}
	}
	receive("of one that was killed")
	first, second := receive("first"), receive("second")
	want("log.incomplete", "of one that was killed")
	want("log.incomplete.1", "first")
	for i, file := range []*streamFile{first, second} {
		if err := finish(file, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	want("log", "first")
	want("log.1", "second")
	if got := (&receiving{}).closed(Arrived{}, second).Path; got != filepath.Join(dir, "log.1") {
		t.Errorf("the second is in %s", got)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.incomplete*")); len(left) != 1 || err != nil {
		t.Errorf("left are %v: %v", left, err)
	}
}

// However many streams of a name a directory has, it takes another, also if the name is as long as names can be.
func TestStreamsOfOneNameAreNotLimited(t *testing.T) {
	dir := t.TempDir()
	const there = 1200
	for i := range there {
		for _, ending := range []string{"", incomplete} {
			if err := os.WriteFile(filepath.Join(dir, numbered("log", ending, i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	long := strings.Repeat("ö", 127) + "x"
	for _, tt := range []struct{ name, incomplete, want string }{
		{"log", "log.incomplete.1200", "log.1200"},
		{long, long[:244] + ".incomplete", long},
		{long, long[:244] + ".incomplete", long[:252] + ".1"},
	} {
		file, err := createStream(dir, tt.name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if got := filepath.Base(file.path); got != tt.incomplete {
			t.Errorf("at first it is in %s, want %s", got, tt.incomplete)
		}
		if err := file.place(false); err != nil || filepath.Base(file.path) != tt.want {
			t.Errorf("%s: %v, want %s", file.path, err, tt.want)
		}
	}
}

// Many streams of one name that end at the same time get a name each, whatever the file system can do.
func TestStreamsThatEndTogetherHaveANameEach(t *testing.T) {
	for name, move := range map[string]func(from, to string) error{"rename to new": moveToNew, "link": linkToNew, "rename": renameToNew} {
		t.Run(name, func(t *testing.T) {
			const streams = 100
			dir := t.TempDir()
			var ending sync.WaitGroup
			for i := range streams {
				from := filepath.Join(dir, fmt.Sprint("from-", i))
				if err := os.WriteFile(from, nil, 0o644); err != nil {
					t.Fatal(err)
				}
				ending.Go(func() {
					if _, err := firstFree(dir, "log", "", func(now string) error { return move(from, filepath.Join(dir, now)) }); err != nil {
						t.Error(err)
					}
				})
			}
			ending.Wait()
			for what, want := range map[string]int{"log*": streams, "from-*": 0} {
				if there, err := filepath.Glob(filepath.Join(dir, what)); len(there) != want || err != nil {
					t.Errorf("%d are called %s, want %d: %v", len(there), what, want, err)
				}
			}
		})
	}
}

// A durable stream has its name on disk, too, and fails if that cannot be.
func TestStreamFileIsSyncedWithItsName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := createStream(dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := finish(file, true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its directory: %v", err)
	}
}

// Some file systems say only when a file is closed that not all of it could be written. It has no name of the whole then, and the program is told
// where it is.
func TestStreamIsClosedBeforeItHasItsName(t *testing.T) {
	dir := t.TempDir()
	file, err := createStream(dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.File.Close(); err != nil { // it cannot be closed once more
		t.Fatal(err)
	}
	if err := finish(file, false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want that it could not be closed", err)
	}
	r := &receiving{incoming: Incoming{Name: "log"}}
	if one := r.closed(r.failedStream(os.ErrClosed), file); one.Path != filepath.Join(dir, "log.incomplete") || one.Err == nil {
		t.Errorf("it is at %s, with %v", one.Path, one.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "log.incomplete")); err != nil {
		t.Error(err)
	}
}
