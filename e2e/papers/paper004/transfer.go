package paper004

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/services/replicator/paper"
)

var place = multicast.Place{Group: netip.MustParseAddrPort("239.77.77.77:7431"), Interface: "eth0", TTL: 8}

// transfer sends one file to all clients of a campus; the clients of the last LANs may join later.
type transfer struct {
	campus   *campus
	size     int
	flow     algo.Flow
	artpMax  time.Duration // zero means the paper's
	late     int           // how many of the last LANs join when half of the file has been sent
	competed func(client int, c paper.Competition)

	dir     string
	running sync.WaitGroup
	guard   sync.Mutex
	wrong   []error

	outcome
}

// outcome is how a transfer went.
type outcome struct {
	windows []paper.Window
	sent    paper.Sent
	got     []paper.Received
	joined  time.Time // when the late LANs joined
	took    time.Duration
}

// run returns when all clients have the file, byte for byte.
func (t *transfer) run(ctx context.Context) (err error) {
	if t.dir, err = os.MkdirTemp("", "soma-"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	content := make([]byte, t.size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	if err := os.WriteFile(t.file("source"), content, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer t.running.Wait()
	defer cancel()
	early := len(t.campus.lans) - t.late
	if t.late == 0 {
		if err := t.campus.route(); err != nil {
			return err
		}
	}
	t.receive(ctx, t.campus.lans[:early])
	if err := t.awaitJoined(ctx, t.campus.lans[:early]); err != nil {
		return err
	}
	if err := t.send(ctx, early); err != nil {
		return err
	}
	t.running.Wait()
	if err := errors.Join(t.wrong...); err != nil {
		return err
	}
	return t.compare(content)
}

func (t *transfer) file(name string) string { return filepath.Join(t.dir, name) }

// receive starts the clients of some LANs.
func (t *transfer) receive(ctx context.Context, lans [][]*lab.Host) {
	for _, lan := range lans {
		for _, host := range lan {
			number := len(t.got)
			t.got = append(t.got, paper.Received{})
			t.running.Go(func() {
				r := paper.Receiver{Place: place, Rules: algo.ReceiverOptions{ARTPMax: t.artpMax, GivingUp: time.Minute}, Seed: t.campus.Seed()<<20 + uint64(number) + 1}
				if t.competed != nil {
					r.Trace = func(c paper.Competition) { t.competed(number, c) }
				}
				err := host.Do(func() (err error) {
					t.got[number], err = r.ReceiveFile(ctx, t.file(host.Name()))
					return err
				})
				if err != nil {
					t.note(fmt.Errorf("%s: %w", host.Name(), err))
				}
			})
		}
	}
}

func (t *transfer) note(err error) {
	t.guard.Lock()
	defer t.guard.Unlock()
	t.wrong = append(t.wrong, err)
}

// group is the group's address in the form in which the kernel lists it.
const group = "4D4D4DEF"

// awaitJoined waits until the clients' kernels have joined the group.
func (t *transfer) awaitJoined(ctx context.Context, lans [][]*lab.Host) error {
	for _, lan := range lans {
		for _, host := range lan {
			for joined := false; !joined; {
				err := host.Do(func() error {
					list, err := os.ReadFile("/proc/thread-self/net/igmp")
					joined = strings.Contains(string(list), group)
					return err
				})
				if err = errors.Join(err, ctx.Err()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (t *transfer) send(ctx context.Context, early int) error {
	source, err := os.Open(t.file("source"))
	if err != nil {
		return err
	}
	defer source.Close()
	s := paper.Sender{Place: place, Rules: algo.SenderOptions{Flow: t.flow, StrangerBits: 24}}
	for _, lan := range t.campus.lans[:early] {
		prefix, err := lan[0].Addr().Prefix(24)
		if err != nil {
			return err
		}
		s.Rules.LANs = append(s.Rules.LANs, prefix)
	}
	half := uint32(t.size / 2 / 512)
	s.Trace = func(w paper.Window) {
		t.windows = append(t.windows, w)
		if t.late > 0 && t.joined.IsZero() && w.Last > half {
			t.joined = time.Now()
			t.receive(ctx, t.campus.lans[early:])
			t.running.Go(func() {
				if err := t.campus.route(); err != nil {
					t.note(err)
				}
			})
		}
	}
	began := time.Now()
	err = t.campus.server.Do(func() error {
		t.sent, err = s.SendFile(ctx, source)
		return err
	})
	t.took = time.Since(began)
	return err
}

// compare checks every client's file.
func (t *transfer) compare(want []byte) error {
	for _, lan := range t.campus.lans {
		for _, host := range lan {
			got, err := os.ReadFile(t.file(host.Name()))
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%s has another file", host.Name())
			}
		}
	}
	return nil
}
