package standalone_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// parties are the sessions of a test in one group.
type parties struct {
	*testing.T
	client *sdk.Client
	ctx    context.Context
	file   string
}

func newParties(t *testing.T) *parties { return newPartiesOf(t, serve(t)) }

func newPartiesOf(t *testing.T, client *sdk.Client) *parties {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	return &parties{t, client, ctx, file}
}

func (p *parties) join(name string, role sdk.Role) *sdk.Session {
	p.Helper()
	session, err := p.client.Join(p.ctx, sdk.Join{Group: "g", Name: name, Roles: []sdk.Role{role}})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(session.Close)
	return session
}

// first returns what a session receives first.
func (p *parties) first(session *sdk.Session, options sdk.ReceiveOptions) sdk.Arrived {
	p.Helper()
	for arrived, err := range session.Receive(p.ctx, options) {
		if err != nil {
			p.Fatal(err)
		}
		return arrived
	}
	p.Fatal("nothing is received any more")
	return sdk.Arrived{}
}

// A program that takes one delivery after the other, each by receiving anew, is told of everything once.
func TestEachIsToldOnce(t *testing.T) {
	const many = 20
	p := newParties(t)
	receiver, sender := p.join("receiver", sdk.Receive), p.join("sender", sdk.Send)
	for i := range many {
		if _, err := sender.Send(p.ctx, p.file, sdk.SendOptions{Name: fmt.Sprint("object-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	into, told := t.TempDir(), make(map[string]bool)
	for range many {
		arrived := p.first(receiver, sdk.ReceiveOptions{Into: into})
		if told[arrived.Name] || arrived.Err != nil {
			t.Errorf("%s: told before: %v, %v", arrived.Name, told[arrived.Name], arrived.Err)
		}
		told[arrived.Name] = true
		time.Sleep(20 * time.Millisecond) // others arrive
	}
}

// collected is a stream that is kept in memory.
type collected struct{ bytes.Buffer }

func (*collected) Close() error { return nil }

// A stream that was taken is not taken again while others still take it: a program that takes one at a time goes on with the next.
func TestStreamIsTakenOnce(t *testing.T) {
	p := newParties(t)
	receiver, other, sender := p.join("receiver", sdk.Receive), p.join("other", sdk.Receive), p.join("sender", sdk.Send)
	opened := 0
	options := sdk.ReceiveOptions{
		AtOnce: 1, Into: t.TempDir(),
		Stream: func(sdk.Incoming) (sdk.StreamWriter, error) {
			opened++
			return new(collected), nil
		},
	}
	if _, err := sender.SendStream(p.ctx, strings.NewReader("stream"), sdk.SendOptions{Name: "stream", AckLevel: sdk.Received}); err != nil {
		t.Fatal(err)
	}
	if arrived := p.first(receiver, options); arrived.Err != nil || arrived.Bytes != 6 {
		t.Fatalf("%+v", arrived)
	}
	next := make(chan sdk.Arrived, 1)
	go func() {
		defer close(next)
		for arrived := range receiver.Receive(p.ctx, options) {
			next <- arrived
			return
		}
	}()
	time.Sleep(200 * time.Millisecond) // it waits
	out, err := sender.Send(p.ctx, p.file, sdk.SendOptions{Name: "object"})
	if err != nil {
		t.Fatal(err)
	}
	if arrived := <-next; arrived.Err != nil || arrived.Name != "object" || opened != 1 {
		t.Fatalf("%+v; %d streams were opened", arrived, opened)
	}
	for range 2 {
		if arrived := p.first(other, sdk.ReceiveOptions{Into: t.TempDir()}); arrived.Err != nil {
			t.Errorf("%+v", arrived)
		}
	}
	if ended, err := out.Wait(p.ctx); err != nil || ended.State != sdk.DeliveryComplete {
		t.Errorf("%v, %v", ended.State, err)
	}
}

// failing is a source that ends with an error after some bytes, when something is closed.
type failing struct {
	when <-chan struct{}
	read bool
}

func (f *failing) Read(p []byte) (int, error) {
	if f.read {
		<-f.when
		return 0, errors.New("the sensor has died")
	}
	f.read = true
	return copy(p, "begun"), nil
}

// Receivers are told in the sender's words what became of its source.
func TestReceiversAreToldWhyTheSourceFailed(t *testing.T) {
	p := newParties(t)
	receiver, sender := p.join("receiver", sdk.Receive), p.join("sender", sdk.Send)
	begun := make(chan struct{})
	if _, err := sender.SendStream(p.ctx, &failing{when: begun}, sdk.SendOptions{Name: "stream"}); err != nil {
		t.Fatal(err)
	}
	arrived := p.first(receiver, sdk.ReceiveOptions{Into: t.TempDir(), Begun: func(sdk.Incoming) { close(begun) }})
	if arrived.Err == nil || !strings.Contains(arrived.Err.Error(), "the sensor has died") {
		t.Errorf("the receiver is told %v", arrived.Err)
	}
}

// A sender that stops waiting for a delivery to begin leaves no delivery that nobody sends.
func TestNothingRunsThatNobodySends(t *testing.T) {
	p := newParties(t)
	receiver, sender := p.join("receiver", sdk.Receive), p.join("sender", sdk.Send)
	ctx, stop := context.WithCancel(p.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range receiver.Receive(ctx, sdk.ReceiveOptions{Into: t.TempDir()}) {
		}
	}()
	defer func() {
		stop()
		<-ended
	}()
	failed := 0
	for i := range 60 { // from nothing to longer than a beginning takes
		brief, cancel := context.WithTimeout(p.ctx, time.Duration(i)*200*time.Microsecond)
		if _, err := sender.Send(brief, p.file, sdk.SendOptions{Name: fmt.Sprint("object-", i)}); err != nil {
			failed++
		}
		cancel()
	}
	if failed == 0 {
		t.Fatal("all have begun in time")
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var running []string
		all, err := p.client.Deliveries(p.ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.State == sdk.DeliveryRunning {
				running = append(running, fmt.Sprintf("%s: %d bytes sent, %+v", one.Name, one.SentBytes, one.Receipts))
			}
		}
		if len(running) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %v", running)
		}
	}
}
