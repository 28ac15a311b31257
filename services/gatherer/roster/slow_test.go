package roster_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// While a commit takes long, a stream is asked for as much more as is hashed, and never says that something is on disk that is not.
func TestStreamGoesOnWhileItsDiskIsSlow(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	goesOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goesOn) })
	defer release()
	f.CommitWith(func(to sink.Sink) (uint64, error) {
		<-goesOn
		return to.Commit()
	})
	session := f.attach("alice")
	opened := f.open(session, stream("log"))
	var content []byte
	for len(content) < 8<<20 {
		answer := opened.Upload.Answer()
		f.await("more is asked for", func() bool {
			answer = opened.Upload.Answer()
			return answer.Credit > opened.Upload.Offset()
		})
		more := bytes.Repeat([]byte{byte(len(content) >> 16)}, int(answer.Credit-opened.Upload.Offset()))
		f.must(opened.Upload.Came(more))
		content = append(content, more...)
	}
	if answer := opened.Upload.Answer(); answer.Ack != 0 {
		t.Errorf("%d bytes are said to be on disk", answer.Ack)
	}
	release()
	f.await("all is on disk", func() bool { return opened.Upload.Answer().Ack == uint64(len(content)) })
	if _, err := f.finish(session, opened, content); err != nil {
		t.Error(err)
	}
}

// A commit that fails ends the upload, whether more comes or not.
func TestCommitThatFails(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	f.CommitWith(func(to sink.Sink) (uint64, error) { return 0, errGone })
	session := f.attach("alice")
	opened := f.open(session, stream("log"))
	f.must(opened.Upload.Came([]byte("some")))
	f.await("the upload has failed", func() bool { return opened.Upload.Failure() != nil })
	if _, err := f.finish(session, opened, []byte("some")); !errors.Is(err, roster.ErrDisk) {
		t.Errorf("it is finished: %v", err)
	}
}
