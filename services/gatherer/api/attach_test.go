package api_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/groupcast/groupcast/internal/daemon"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/services/gatherer/api"
)

// mute is the stream of a client that says nothing.
type mute struct {
	grpc.ServerStream
	ctx context.Context
}

func (m *mute) Context() context.Context { return m.ctx }

func (m *mute) Send(*gatherv1.AttachResponse) error {
	return errors.New("told something before it said who it is")
}

func (m *mute) Recv() (*gatherv1.AttachRequest, error) {
	<-m.ctx.Done()
	return nil, m.ctx.Err()
}

// A client that opens a stream and says nothing is no client: its stream ends after 2 s.
func TestClientThatSaysNothingIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := new(api.Server).Attach(&mute{ctx: t.Context()}); !errors.Is(err, daemon.ErrSilent) {
			t.Errorf("the stream ended with %v", err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it was waited for %v", took)
		}
	})
}
