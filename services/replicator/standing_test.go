package replicator_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// unanswering is a source of which one call does not return until it answers.
type unanswering struct {
	*send.Object
	after   uint64
	stands  func()
	answers chan struct{}
}

func (u *unanswering) ReadAt(p []byte, offset uint64) error {
	if offset > u.after {
		u.stands()
		<-u.answers
	}
	return u.Object.ReadAt(p, offset)
}

// A sender that is ended while its source does not answer says so to its receivers at once: they do not find out by its silence.
func TestFarewellWhileTheSourceStands(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(6_000_000)
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	answers := make(chan struct{})
	answer := sync.OnceFunc(func() { close(answers) })
	late := time.AfterFunc(15*time.Second, answer) // otherwise it would be waited for for ever
	receipts := b.receiveAll(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.sendFrom(ctx, &unanswering{source, 2_000_000, interrupt, answers})
		done <- err
	}()
	for i, one := range receipts {
		if r := <-one; !errors.Is(r.err, receive.ErrSenderGone) {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
	}
	if !late.Stop() {
		t.Error("the receivers are told when the source answers")
	}
	answer()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the sender: %v", err)
	}
}
