package delivery

import (
	"testing"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// A sender that was done before this manager led, and so has reported nothing to it, has all that it sent.
func TestSenderOfAnEarlierTermHasWhatItSent(t *testing.T) {
	u := serve(t, fileSpec())
	sent := u.shown()
	sent.DeliveryRecord = proto.CloneOf(sent.DeliveryRecord)
	sent.Delivery.SentBytes = 1000
	u.desk.write(t, sent)
	u.desk.keepers["d"] = u.keeper
	told, message := new(toldTree), &groupv1.WatchDeliveryResponse{Delivery: u.desk.show(u.shown())}
	told.tell(u.keeper, u.shown(), message)
	for what, shown := range map[string]*groupv1.Delivery{"shown": u.desk.Show(u.shown()), "watched": message.GetDelivery()} {
		if sender := shown.GetTree()[0]; sender.GetId() != "member/s" || sender.GetBytes() != 1000 {
			t.Errorf("%s, the sender is %v, want that it has 1000 bytes", what, sender)
		}
	}
	if told.tell(u.keeper, u.shown(), message); len(message.GetNodes()) > 0 {
		t.Errorf("then %v have got further", message.GetNodes())
	}
}
