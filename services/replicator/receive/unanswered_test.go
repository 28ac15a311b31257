package receive

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/pulse"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// A receiver that nothing answers is told what may be the matter: while the sender has not begun, that it waits for others, and after that
// that a firewall may drop what is sent to it.
func TestWhyNothingAnswers(t *testing.T) { synctest.Test(t, whyNothingAnswers) }

func whyNothingAnswers(t *testing.T) {
	r := receiving(t, 1<<20)
	var said bytes.Buffer
	r.rules, r.welcomed, r.mouth, r.ear, r.disk = nil, false, onLoopback(t), onLoopback(t), &watched{watch: new(pulse.Watch)}
	r.env.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r.heard.Sender = r.mouth.Addr()
	r.public, r.secret, r.asking, r.pollHeard = make([]byte, wire.PublicSize), r.heard.Secret, time.Now(), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	done := make(chan error, 1)
	go func() { done <- r.keepJoining(ctx) }()
	number := uint64(0)
	announcedFor := func(span time.Duration, size uint16) string {
		for range span / (100 * time.Millisecond) {
			number++
			r.take(r.heard.Secret.Group().Announce(number, wire.Salt{1}, make([]byte, wire.PublicSize), wire.Announcement{Datagram: size, Sender: r.heard.Sender, Name: "object"}, wire.MinDatagram), netip.AddrPort{})
			time.Sleep(100 * time.Millisecond)
		}
		now := said.String()
		said.Reset()
		return now
	}
	if now := announcedFor(unanswered+time.Second, 0); strings.Contains(now, "does not answer") || strings.Count(now, "waits for others") != 1 {
		t.Errorf("before the sender has begun: %q", now)
	}
	if now := announcedFor(unanswered-time.Second, 1472); now != "" {
		t.Errorf("just after it has begun: %q", now)
	}
	if now := announcedFor(unanswered, 1472); strings.Count(now, "does not answer: does a firewall drop") != 1 {
		t.Errorf("for long after it has begun: %q", now)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
