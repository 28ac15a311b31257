package alone

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/record"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// recorded reads a record, of which every line has to be whole.
func recorded(t *testing.T, name string) record.Record {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := record.Read(bufio.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sendTo sends so many bytes to a receiver of its own, at 4 MB/s, and returns the exit status, what was said, and the name of the record.
func sendTo(t *testing.T, size int, more ...string) (status int, said []string, name string) {
	t.Helper()
	dir := t.TempDir()
	content := make([]byte, size)
	_, _ = rand.Read(content)
	source, name := filepath.Join(dir, "disk.img"), filepath.Join(dir, "record")
	if err := errors.Join(os.WriteFile(source, content, 0o600), os.WriteFile(name, []byte(strings.Repeat("before\n", 1000)), 0o600)); err != nil {
		t.Fatal(err)
	}
	received := make(chan int, 1)
	go func() {
		status, _ := called("receive", "--lan", "lo", "--key", phrase, "--into", filepath.Join(dir, "into"), "--name", "one", "--await", "20s")
		received <- status
	}()
	arguments := []string{"send", source, "--lan", "lo", "--key", phrase, "--wait", "20s", "--rate", "4MB", "--datagram", "1472", "--record", name}
	status, said = called(append(arguments, more...)...)
	t.Logf("the receiver ends with %d", <-received)
	return status, said, name
}

// A record says what was replicated, and how the window grew and what was sent, from the first packet until all have it.
func TestSenderWritesARecord(t *testing.T) {
	const size = 2 << 20
	begun := time.Now()
	status, said, name := sendTo(t, size)
	if status != exitOK {
		t.Fatalf("it ends with %d: %q", status, said)
	}
	r := recorded(t, name)
	server, err := netip.ParseAddrPort(r.Server)
	if err != nil || !server.Addr().IsLoopback() || !strings.HasPrefix(r.Group, "239.") || r.Began.Before(begun) {
		t.Errorf("%+v: %v", r.Head, err)
	}
	if h := r.Head; h.Name != "disk.img" || h.Length != size || h.Profile != "fast" || h.Datagram != 1472 || h.LAN != "lo" || h.Receivers != 1 {
		t.Errorf("%+v", h)
	}
	if len(r.Samples) < 4 {
		t.Fatalf("%d lines of half a second", len(r.Samples))
	}
	first, last := r.Samples[0], r.Samples[len(r.Samples)-1]
	if first.Seconds > 0.1 || first.Packets > last.Packets/2 || first.Receiving != 1 || first.Window == 0 {
		t.Errorf("it begins with %+v", first)
	}
	if last.Seconds < 0.4 || last.Sent != size || last.Bytes <= size || last.Packets*1472 < size || last.Repairs > last.Packets || last.Window == 0 {
		t.Errorf("it ends with %+v", last)
	}
	if last.Complete != 1 || last.Landed != size || last.Receiving != 0 || last.Polls == 0 || last.Reports == 0 {
		t.Errorf("it ends with %+v", last)
	}
}

// Of a sender that fails there is what there was until then, and of one to which nobody comes nothing.
func TestRecordOfWhatEndsEarly(t *testing.T) {
	dir := t.TempDir()
	source, name := filepath.Join(dir, "disk.img"), filepath.Join(dir, "record")
	if err := os.WriteFile(source, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	received := make(chan struct{})
	go func() {
		defer close(received)
		called("receive", "--lan", "lo", "--key", phrase, "--into", filepath.Join(dir, "into"), "--name", "one", "--await", "20s")
	}()
	go func() { // once there are some lines
		for ctx.Err() == nil {
			if text, _ := os.ReadFile(name); strings.Count(string(text), "\n") > 3 {
				interrupt()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	a := &app{stdout: t.Output(), stderr: t.Output(), phrase: phrase, lan: "lo", ttl: 1, profile: "fast"}
	err := a.send(ctx, &sending{wait: 20 * time.Second, patience: time.Minute, rate: 1 << 20, slow: "pace", disk: time.Minute, record: name}, source)
	<-received
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	r := recorded(t, name)
	if last := r.Samples[len(r.Samples)-1]; len(r.Samples) < 3 || last.Receiving != 1 || last.Bytes == 0 || last.Sent == r.Length {
		t.Errorf("it ends with %+v", last)
	}

	status, _ := called("send", source, "--lan", "lo", "--key", phrase, "--wait", "10ms", "--record", name)
	if text, err := os.ReadFile(name); status != exitUnavailable || err != nil || len(text) > 0 {
		t.Errorf("without a receiver it ends with %d, and has %q, %v", status, text, err)
	}
}

// A record that cannot be begun has nothing be sent.
func TestRecordThatCannotBeBegun(t *testing.T) {
	status, said, _ := sendTo(t, 1<<20, "--record", "/dev/full")
	if last := said[len(said)-1]; status != exitFailed || !strings.Contains(last, "record: write /dev/full: no space left on device") {
		t.Errorf("it ends with %d: %q", status, said)
	}
}

// A record that cannot be gone on with ends, and the replication does not. At the end that is an error.
func TestRecordThatCannotBeGoneOnWith(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{stderr: t.Output()}
	r := &recording{file: file, log: a.log()}
	if err := r.begin(a, object.Info{}, send.Beginning{}, ""); err != nil {
		t.Fatal(err)
	}
	file.Close()
	r.tell(send.Progress{})
	r.tell(send.Progress{})
	if err := r.end(send.Result{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("it ends with %v", err)
	}
}

// A disk that hangs holds up nobody: lines that wait for it are left out, and at the end that is an error.
func TestRecordOnADiskThatHangs(t *testing.T) {
	disk, hangs := io.Pipe()
	defer disk.Close()
	a := &app{stderr: t.Output()}
	r := &recording{file: hangs, log: a.log()}
	begun := make(chan error, 1)
	go func() { begun <- r.begin(a, object.Info{}, send.Beginning{}, "") }()
	if _, err := bufio.NewReader(disk).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	for range 2 * waiting { // this must not take long
		r.tell(send.Progress{})
	}
	if err := r.end(send.Result{}); !errors.Is(err, errRecordStands) {
		t.Errorf("it ends with %v", err)
	}
}

// Lines say how many receivers are how far, and what was sent to all.
func TestLinesOfARecord(t *testing.T) {
	member := func(outcome algo.Outcome, landed uint64, silent bool, lost float64) send.Receipt {
		return send.Receipt{Outcome: outcome, Landed: landed, Silent: silent, Lost: lost}
	}
	got := sampleOf(send.Progress{
		Sent: 900, Length: 1000, Window: 32, Bytes: 1500, Counts: algo.Counts{Packets: 12, Repairs: 3, Polls: 2, Reports: 4, Wants: 5, Trips: 1, Timeouts: 1},
		Members: []send.Receipt{
			member(algo.Running, 700, false, 0.1), member(algo.Running, 400, true, 0.3), member(algo.Complete, 1000, false, 0.5),
			member(algo.Failed, 10, false, 0), member(algo.Unknown, 20, true, 0.9),
		},
	}, 1234567*time.Nanosecond)
	want := record.Sample{
		Seconds: 0.001235, Window: 32, Bytes: 1500, Packets: 10, Repairs: 3, Sent: 900, Polls: 2, Reports: 4, Wanted: 5, Trips: 1, Timeouts: 1,
		Receiving: 2, Silent: 1, Complete: 1, Failed: 1, GivenUp: 1, Landed: 400, Lost: 0.3,
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
