package sdk

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/groupcast/groupcast/internal/digest"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
)

// A member that was cut off for longer than its lease may hear that its session has expired from the receipt of an object first, and from
// its heartbeat seconds later. The object is whole in its place: it has not failed, and the next session tells the managers. If the
// session goes on all the same, what the managers said is told.
func TestReceiptOfASessionThatIsOverIsLeftToTheNext(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			into, content := t.TempDir(), []byte("weights")
			if err := os.WriteFile(filepath.Join(into, "it"), content, 0o600); err != nil {
				t.Fatal(err)
			}
			var hash digest.Hash
			_, _ = hash.Write(content)
			root := hash.Sum()
			assignment := &groupv1.Assignment{
				Delivery: "d", Sealed: true, Root: root[:], Length: uint64(len(content)),
				Spec: &groupv1.DeliverySpec{Name: "it", Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Length: uint64(len(content)), Mode: 0o600},
			}
			s := &Session{client: &Client{
				uplink: new(uplink.Uplink), log: slog.New(slog.DiscardHandler),
				deliveries: &refusing{refusals: []error{refusal(t, codes.FailedPrecondition, "SESSION_ENDED")}},
			}}
			s.attendance = newAttendance(s.client)
			s.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{assignment}})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if !goesOn {
				time.AfterFunc(4*time.Second, end) // a heartbeat and its pause later
			}
			arrived := make(chan arrival, 1)
			s.receiveOne(ctx, ReceiveOptions{Into: into}, assignment, true, arrived)
			var told error
			select {
			case one := <-arrived:
				told = one.Err
			default:
			}
			if refused := (*Error)(nil); errors.As(told, &refused) != goesOn {
				t.Errorf("the session goes on: %t, and the program is told %v", goesOn, told)
			}
		})
	}
}
